"""docs/cost-model.md matches the code: its constants, and table rows recomputed with each family held out."""

from dataclasses import fields
from pathlib import Path

import pytest
from shardlab.costs.clock.setup import FITTED
from shardlab.costs.uncertainty import covered_share, error_factor, held_out_coverage, held_out_residuals
from shardlab.costs.validation.fitting import GUESSED
from shardlab.costs.validation.validate import (
    Errors,
    constant_utilisation,
    errors_of,
    fitted_model,
    measured_runs,
    table,
)

PAGE = (Path(__file__).parents[3] / "docs" / "cost-model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [field.name for field in fields(FITTED)])
def test_the_page_prints_the_constants(name):
    assert f"| `{name}` | {getattr(GUESSED, name):.2f} | {getattr(FITTED, name):.2f} |" in PAGE


@pytest.mark.slow
@pytest.mark.parametrize("family", ["LLAMA3", "MPT"])
def test_the_page_prints_what_a_held_out_family_errs(family):
    runs = measured_runs()
    seen, unseen = ([run for run in runs if (run.family == family) == hidden] for hidden in (False, True))
    ours, rival = (errors_of(unseen, fitted(seen)) for fitted in (fitted_model, constant_utilisation))
    line = table(Errors(ours.by_family), rival).splitlines()[1]
    assert line in PAGE


def test_the_mean_of_the_page_is_the_mean_of_its_rows():
    rows = [
        line.split() for line in PAGE.splitlines() if line[:1].isupper() and line.count("%") == 3 and "(" not in line
    ]
    errors = [float(row[2].rstrip("%")) for row in rows if row[1].isdigit()]
    assert len(errors) == len({run.family for run in measured_runs()})
    mean = next(line.split() for line in PAGE.splitlines() if line.startswith("mean "))
    assert float(mean[2].rstrip("%")) == pytest.approx(sum(errors) / len(errors), abs=0.06)


def test_the_page_says_how_wide_the_interval_is():
    factor, inside = error_factor(held_out_residuals()), held_out_coverage(held_out_residuals())
    assert (
        f"a factor of {factor:.2f} up and\ndown" in PAGE
        and f"it covers {covered_share(inside):.0%} of all runs" in PAGE
    )
    row = next(line.split() for line in PAGE.splitlines() if line.startswith("runs in the 90% interval"))
    assert row[8] == f"{covered_share(inside):.1%}"
