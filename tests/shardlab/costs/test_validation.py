"""The formulas compared with published runs: memory, rankings, data files, prediction intervals, docs/cost-model.md."""

import json
import math
import statistics
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from fnmatch import fnmatch
from pathlib import Path
from statistics import mean

import pytest
from setuptools import find_packages
from shardlab.costs.clock.setup import FITTED
from shardlab.costs.memory.frameworks import FRAGMENTS
from shardlab.costs.uncertainty import (
    covered_share,
    error_factor,
    held_out_coverage,
    held_out_residuals,
    step_interval,
)
from shardlab.costs.validation import memory_validate
from shardlab.costs.validation.fitting import GUESSED, predict, residuals_of, write_residuals
from shardlab.costs.validation.memory_validate import (
    BARS,
    fit_fragments,
    held_out_errors,
    memory_errors,
    memory_runs,
    predicted,
)
from shardlab.costs.validation.predictions import predict_memory, predicted_rows
from shardlab.costs.validation.published import RUNS, read_rows
from shardlab.costs.validation.validate import (
    Errors,
    bootstrap_interval,
    choices,
    choices_by_group,
    constant_utilisation,
    errors_of,
    fitted_model,
    measured_runs,
    rank_correlation,
    regret,
    same_choice,
    table,
)

# ---- The memory model on published runs: bars, and no source predicted with a constant fitted on it ------------------


@pytest.fixture(scope="module")
def runs():
    return memory_runs()


def test_every_source_is_met_within_its_bar(runs):
    counted = {run.family: run.reported.counted for run in runs}
    errors = held_out_errors(runs)
    assert set(errors) >= {"TITAN", "NANO", "BLOOM", "MGOLD", "SIMUMAX"}
    for family, signed in errors.items():
        assert statistics.mean(map(abs, signed)) <= BARS[counted[family]], family


def test_a_source_that_counts_allocated_bytes_needs_no_constant(runs):
    allocated = [run for run in runs if run.reported.counted == "allocated"]
    assert memory_errors(allocated, lambda _: 0.0) == memory_errors(allocated, lambda _: 9.9)
    assert fit_fragments(allocated) == 0


def test_the_constant_is_found_again_in_runs_that_were_made_with_it(runs):
    made = [replace(run, memory_bytes=predicted(run, 0.2)) for run in runs]
    assert fit_fragments(made) == pytest.approx(0.2)


def test_the_published_constant_is_the_fitted_one(runs):
    assert pytest.approx(fit_fragments(runs), abs=0.02) == FRAGMENTS


def test_a_held_out_family_is_never_fitted(runs, monkeypatch):
    seen = []
    monkeypatch.setattr(memory_validate, "fit_fragments", lambda some: seen.append({run.family for run in some}) or 0.1)
    held_out_errors(runs)
    families = {run.family for run in runs}
    assert sorted(map(sorted, seen)) == sorted(sorted(families - {one}) for one in families)


def test_the_table_has_a_row_a_family(runs):
    shown = memory_validate.table(runs)
    assert shown.count("\n") == len({run.family for run in runs}) and "nvidia-smi" in shown and "15%" in shown


def test_predictions_are_in_the_unit_of_the_source(runs):
    rows = {row["id"]: row for row in read_rows()}
    for run in runs:
        answer = predicted_rows([rows[run.id]])[0]["predicted_mem_GB"]
        assert float(answer) == pytest.approx(predict_memory(run) / run.reported.unit, abs=0.01)
        assert float(rows[run.id]["reported_mem_GB"]) == pytest.approx(run.memory_bytes / run.reported.unit)


# ---- Choosing between layouts ----------------------------------------------------------------------------------------


def test_rank_correlation_of_known_orders():
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3], [5, 5, 5]) == 0
    assert rank_correlation([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1)
    with pytest.raises(ValueError, match="2 or more"):
        rank_correlation([1], [1])


def test_regret_is_what_the_choice_costs():
    assert regret([10, 12, 11], [5, 9, 8]) == 0
    assert regret([10, 12, 11], [5, 3, 8]) == pytest.approx(0.2)


def test_groups_differ_in_their_layout_only():
    groups = same_choice(measured_runs())
    assert len(groups) >= 5
    assert all(len({(run.model, run.layout.world) for run in group}) == 1 for group in groups)
    assert all(len({run.layout for run in group}) == len(group) for group in groups)


def test_predictions_choose_better_than_chance():
    correlation, lost, _ = choices(measured_runs(), predict)
    assert correlation > 0.4 and lost < 0.1  # one utilization for all layouts: 0 and 0.11


def test_the_bootstrap_draws_the_values_it_is_given():
    assert bootstrap_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)
    low, high = bootstrap_interval([0.0, 1.0] * 50)
    assert 0.5 - low == pytest.approx(1.645 * 0.5 / 10, rel=0.15) == high - 0.5  # the normal limit of a mean of 100
    assert bootstrap_interval([0.0, 0.4, 1.0], 0.5)[1] < bootstrap_interval([0.0, 0.4, 1.0])[1]
    assert bootstrap_interval([0.0, 0.4, 1.0]) == bootstrap_interval([0.0, 0.4, 1.0])
    with pytest.raises(ValueError, match="give one or more"):
        bootstrap_interval([])


def test_the_mean_of_groups_is_what_choices_say():
    runs = measured_runs()
    by_group = choices_by_group(runs, predict)
    correlation, lost, groups = choices(runs, predict)
    assert len(by_group) == groups
    assert sum(one for one, _ in by_group) / groups == pytest.approx(correlation)
    assert sum(one for _, one in by_group) / groups == pytest.approx(lost)


# The published numbers ship with the package, and their README names every file and every source


ROOT = Path(__file__).parents[3]
DATA = RUNS.parent


def test_a_wheel_takes_every_data_file():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = setuptools["package-data"]["shardlab.costs"]
    assert "shardlab.costs" in find_packages(ROOT / "labs")  # as in setup.py
    files = [path.relative_to(DATA.parent).as_posix() for path in DATA.iterdir()]
    assert {"data/published_runs.csv", "data/held_out_residuals.json", "data/README.md"} <= set(files)
    assert [file for file in files if not any(fnmatch(file, pattern) for pattern in patterns)] == []


def test_the_readme_names_files_and_sources():
    text = (DATA / "README.md").read_text()
    data = [path.name for path in DATA.iterdir() if path.suffix != ".md"]
    assert [name for name in data if f"{name}`" not in text] == []
    families = {row["id"].split("-")[0] for row in read_rows(RUNS)}
    assert [family for family in sorted(families) if f"`{family}`" not in text] == []


LN2, LN3 = math.log(2), math.log(3)


def test_every_source_weighs_the_same():
    many, one = [0.0] * 99 + [LN2], [-LN3]
    assert error_factor({"many": many, "one": one}, 0.5) == pytest.approx(2)  # 99 zeros are 49.5%
    assert error_factor({"many": many, "one": one}, 0.51) == pytest.approx(3)
    assert error_factor({"many": many}, 0.99) == pytest.approx(1)
    assert error_factor({"one": [-LN2]}, 0.1) == pytest.approx(2)  # too slow and too fast count equally


def test_a_source_is_covered_by_the_others_alone():
    inside = held_out_coverage({"near": [0.1, -0.1], "far": [LN2, 0.05]}, 0.9)
    assert inside == {"near": [True, True], "far": [False, True]}
    assert covered_share(inside) == 0.75


def test_an_interval_holds_the_prediction_and_grows_with_coverage():
    low, high = step_interval(2.0)
    assert low < 2.0 < high and low * high == pytest.approx(4.0)
    assert step_interval(2.0, 0.5)[1] < high < step_interval(2.0, 0.99)[1]
    assert step_interval(4.0) == pytest.approx((2 * low, 2 * high))


def test_of_ten_published_runs_nine_are_covered():
    inside = held_out_coverage(held_out_residuals(), 0.9)
    assert 0.85 <= covered_share(inside) <= 0.95
    assert 0.85 <= mean(mean(runs) for runs in inside.values()) <= 0.95
    assert covered_share(held_out_coverage(held_out_residuals(), 0.5)) < 0.65


@pytest.mark.parametrize("coverage", [0, 1, 90, -0.1, math.nan])
def test_a_coverage_is_a_share(coverage):
    with pytest.raises(ValueError, match="use a number between 0 and 1"):
        step_interval(1.0, coverage)


@pytest.mark.parametrize("seconds", [0, -1.0, math.inf, math.nan])
def test_a_time_is_positive(seconds):
    with pytest.raises(ValueError, match="give a positive number of seconds"):
        step_interval(seconds)


def test_no_residuals_make_no_interval():
    with pytest.raises(ValueError, match="give one or more"):
        error_factor({})
    with pytest.raises(ValueError, match="give one or more"):
        error_factor({"empty": []})


def test_the_stored_residuals_are_of_the_runs_with_a_time(tmp_path):
    runs = measured_runs()
    assert {family: len(them) for family, them in residuals_of(runs, predict).items()} == {
        family: len(them) for family, them in held_out_residuals().items()
    }
    write_residuals(runs[:2], predict, tmp_path / "two.json")
    written = json.loads((tmp_path / "two.json").read_text())
    assert written == {
        runs[0].family: {run.id: round(math.log(run.step_seconds / predict(run)), 4) for run in runs[:2]}
    }


@pytest.mark.slow
@pytest.mark.parametrize("family", ["LLAMA3", "MCORE"])
def test_the_stored_residuals_come_from_constants_without_their_source(family):
    runs = measured_runs()
    predicted = fitted_model([run for run in runs if run.family != family])
    found = residuals_of([run for run in runs if run.family == family], predicted)
    assert found[family] == pytest.approx(held_out_residuals()[family], abs=2e-4)


def test_the_import_is_cheap():
    text = "import sys, shardlab.costs.uncertainty; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout == "[]\n"


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
