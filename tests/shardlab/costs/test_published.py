"""Rows of published runs, good and bad; what the model of time reaches on them, beside the simplest rival."""

import csv

import pytest
from shardlab.costs.fitting import GUESSED, fit, predict
from shardlab.costs.predictions import ADDED, predicted_rows
from shardlab.costs.published import RUNS, read_rows, run_of
from shardlab.costs.validate import (
    Errors,
    constant_utilisation,
    errors_of,
    held_out,
    measured_runs,
    table,
)


@pytest.fixture(scope="module")
def runs():
    return measured_runs()


def row(**changes):
    return read_rows()[0] | changes


def test_nearly_every_row_is_understood_and_the_others_say_why(runs):
    done = predicted_rows(read_rows())
    refused = [one for one in done if one["not_predicted"]]
    assert len(refused) <= 5 and all(not one["predicted_step_s"] for one in refused)
    assert len(runs) > 350
    assert all(one["predicted_step_s"] for one in done if one["arch"].endswith("moe") or int(one["cp"] or 1) > 1)


def test_no_reported_number_is_read():
    known = row()
    blind = {k: "" if k.startswith("reported") or k in ("tok_s_gpu", "step_s_derived") else v for k, v in known.items()}
    absurd = known | {"reported_step_s": "1e9", "reported_mfu": "nonsense", "reported_mem_GB": "-4"}
    answers = [[one[name] for name in ADDED] for one in predicted_rows([known, blind, absurd])]
    assert answers[0] == answers[1] == answers[2] and answers[0][2] == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu": "TPU"}, "unknown: use one of A100"),
        ({"n_gpus": "31"}, "but the run has 31 GPUs"),
        ({"layers": "many"}, "no number"),
        ({"layers": "-3"}, "use 1 or more"),
        ({"tp": "5", "n_gpus": "160"}, "use a tensor-parallel size of 1, 2"),
        ({"global_batch": "100"}, "use a multiple of 512"),
        ({"hidden": "inf"}, "no number"),
    ],
)
def test_a_bad_row_is_answered_with_a_reason_and_the_others_are_done(changes, reason):
    bad, good = predicted_rows([row(**changes), row()])
    assert reason in bad["not_predicted"] and not good["not_predicted"]


def test_a_missing_column_is_named():
    short = row()
    del short["layers"]
    assert predicted_rows([short])[0]["not_predicted"] == "there is no column layers"


def test_the_file_of_runs_is_whole():
    with RUNS.open() as file:
        assert all(None not in one for one in csv.DictReader(file))
    assert run_of(read_rows()[0]).family == "MEG21"


def test_errors_weigh_families_alike():
    errors = Errors({"a": [0.1, -0.1], "b": [-0.3]})
    assert errors.macro == pytest.approx(0.2) and errors.median == 0.1 and errors.share_within(0.1) == 2 / 3


def test_a_held_out_family_is_never_fitted(runs):
    seen = []

    def fitted(others):
        seen.append({run.family for run in others})
        return lambda run: run.step_seconds

    assert errors_of(runs, held_out(runs, fitted)).macro == 0
    assert all(len(families) == len({run.family for run in runs}) - 1 for families in seen)


def test_the_constants_beat_one_utilisation(runs):  # these saw the runs: `python -m shardlab.costs.validate` holds out
    ours, rival = errors_of(runs, predict), errors_of(runs, constant_utilisation(runs))
    assert ours.macro < 0.16 and ours.median < 0.14 and ours.macro < 0.75 * rival.macro
    assert table(ours, rival).count("\n") == len(ours.by_family) + 4


def test_a_fit_lowers_the_error(runs):
    few = [run for run in runs if run.family in ("KORTH", "LLAMA3")]
    fitted = fit(few, rounds=3)
    before, after = (errors_of(few, lambda run, e=e: predict(run, e)).macro for e in (GUESSED, fitted))
    assert after < before
