"""861 steps on one server: read whole, predicted without their times, better than one utilisation in every family."""

import csv
import statistics

import pytest
from shardlab.costs.validation.predictions import predict_seconds
from shardlab.costs.validation.validate import constant_utilisation, errors_of, held_out
from shardlab.costs.validation.validate_single_node import STEPS, read_steps, table


@pytest.fixture(scope="module")
def runs():
    return read_steps()


def test_every_row_is_a_run_of_one_server(runs):
    assert len(runs) == 861 == sum(1 for _ in STEPS.open()) - 1
    first = runs[0]
    assert (first.layout.pp, first.layout.num_microbatches, first.model.layers) == (2, 2, 24)
    assert first.step_seconds == pytest.approx(0.372160408) and first.family == "pp"
    assert all(run.layout.world <= 8 and run.layout.recompute == "full" for run in runs)
    assert len({run.id for run in runs}) == 861


def test_a_prediction_reads_no_time(runs, tmp_path):
    rows = list(csv.DictReader(STEPS.open(newline="")))[:20]
    with (tmp_path / "faster.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"iteration time (ms)": "1.0"} for row in rows)
    faster = read_steps(tmp_path / "faster.csv")
    assert [predict_seconds(run) for run in faster] == [predict_seconds(run) for run in runs[:20]]


def test_every_family_is_predicted_better_than_by_one_utilisation(runs):
    ours, rival = errors_of(runs, predict_seconds), errors_of(runs, held_out(runs, constant_utilisation))
    for family, errors in ours.by_family.items():
        assert statistics.mean(map(abs, errors)) < statistics.mean(map(abs, rival.by_family[family])) / 2
    assert ours.macro < 0.15


def test_the_table_prints_these_errors(runs):
    printed = table(runs)
    ours = errors_of(runs, predict_seconds)
    assert f"{ours.macro:7.1%}" in printed and f"{ours.median:7.1%}" in printed
    assert all(f"\n{family:10} " in "\n" + printed for family in ours.by_family)
    assert "choices, ours: rank correlation" in printed
