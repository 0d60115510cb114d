"""The model of memory on published runs: bars, and that no source is predicted with a constant that saw it."""

import statistics
from dataclasses import replace

import pytest
from shardlab.costs.memory_outside import FRAGMENTS
from shardlab.costs.validation import memory_validate
from shardlab.costs.validation.memory_validate import (
    BARS,
    fit_fragments,
    held_out_errors,
    memory_errors,
    memory_runs,
    predicted,
    table,
)
from shardlab.costs.validation.predictions import predict_memory, predicted_rows
from shardlab.costs.validation.published import read_rows


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
    shown = table(runs)
    assert shown.count("\n") == len({run.family for run in runs}) and "nvidia-smi" in shown and "15%" in shown


def test_predictions_are_in_the_unit_of_the_source(runs):
    rows = {row["id"]: row for row in read_rows()}
    for run in runs:
        answer = predicted_rows([rows[run.id]])[0]["predicted_mem_GB"]
        assert float(answer) == pytest.approx(predict_memory(run) / run.reported.unit, abs=0.01)
        assert float(rows[run.id]["reported_mem_GB"]) == pytest.approx(run.memory_bytes / run.reported.unit)
