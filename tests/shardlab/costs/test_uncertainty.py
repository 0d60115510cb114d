"""The interval around a predicted step: computed by hand in small cases, and its coverage on published runs."""

import json
import math
import subprocess
import sys
from statistics import mean

import pytest
from shardlab.costs.uncertainty import (
    covered_share,
    error_factor,
    held_out_coverage,
    held_out_residuals,
    step_interval,
)
from shardlab.costs.validation.fitting import predict, residuals_of, write_residuals
from shardlab.costs.validation.validate import fitted_model, measured_runs

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
