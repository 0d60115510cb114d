"""Failures: formula, simulation and search for the optimum agree, and they reproduce the numbers of Llama 3."""

import math

import pytest
from shardlab.costs import failures
from shardlab.costs.models.model import num_parameters
from shardlab.costs.models.zoo import find_model

HOUR, DAY = 3600, 86400


def test_a_run_like_llama_3_fails_every_three_hours():
    one = failures.mean_seconds_of_one(16384, 54 * DAY, 419)
    assert one / HOUR == pytest.approx(50_677, abs=1)
    between = failures.mean_seconds_between(16384, one)
    assert between / HOUR == pytest.approx(3.09, abs=0.01)
    assert failures.expected_failures(54 * DAY, between) == pytest.approx(419)
    assert failures.quiet_share(DAY, between) == pytest.approx(math.exp(-419 / 54))
    assert failures.mean_seconds_between(8, one) / DAY == pytest.approx(264, abs=1)  # one server: twice in 18 months


def test_a_checkpoint_of_405b_is_five_terabytes():
    assert failures.checkpoint_bytes(num_parameters(find_model("llama3-405b"))) / 1e12 == pytest.approx(5.68, abs=0.01)


@pytest.mark.parametrize(("save", "between", "restart"), [(3, 11_000, 300), (60, 11_000, 600), (300, 2_000, 0)])
def test_formula_and_play_agree(save, between, restart):
    for factor in (0.5, 1, 2):
        interval = factor * failures.best_interval(save, between)
        checkpoints = int(400_000 * interval / between) + 20_000
        played = failures.played_goodput(interval, save, between, restart, checkpoints=checkpoints)
        assert played == pytest.approx(failures.goodput(interval, save, between, restart), rel=0.01)


@pytest.mark.parametrize("ratio", [1e-4, 1e-3, 1e-2, 0.1, 0.5])
def test_daly_finds_the_optimum_and_young_is_near_it_for_short_checkpoints(ratio):
    between = 10_000.0
    save = ratio * between
    best = max(range(1, 30_000), key=lambda tau: failures.goodput(tau, save, between, 0))
    assert failures.best_interval_daly(save, between) == pytest.approx(best, rel=0.02)
    young = failures.goodput(failures.best_interval(save, between), save, between, 0)
    assert young <= failures.goodput(best, save, between, 0) * (1 + 1e-12)
    assert young == pytest.approx(failures.goodput(best, save, between, 0), rel=0.1 * ratio + 1e-4)


def test_restarts_do_not_move_the_optimum():
    times = [max(range(100, 5000), key=lambda tau: failures.goodput(tau, 60, 11_000, R)) for R in (0, 900)]
    assert times[0] == times[1]


def test_first_order():
    exact = failures.goodput(800, 3, 100_000, 300)
    assert exact == pytest.approx(1 - 3 / 800 - (400 + 300) / 100_000, abs=1e-4)


def test_checkpoints_longer_than_failures_are_apart():
    assert failures.best_interval_daly(500, 200) == 200


def test_what_cannot_be_is_refused():
    for call in (
        lambda: failures.best_interval(0, 1),
        lambda: failures.goodput(0, 1, 1, 1),
        lambda: failures.mean_seconds_between(0, 1),
        lambda: failures.played_goodput(1, 1, 1, 1, checkpoints=0),
        lambda: failures.goodput(1, -1, 1, 1),
    ):
        with pytest.raises(ValueError, match="use"):
            call()


def test_first_order_is_near_for_rare_failures_and_never_negative():
    between, save, restart = 11_125.0, 30.0, 600.0
    interval = failures.best_interval(save, between)
    exact = failures.goodput(interval, save, between, restart)
    assert failures.first_order_goodput(interval, save, between, restart) == pytest.approx(exact, rel=0.01)
    assert failures.first_order_goodput(3600, save, 300, restart) == 0.0
