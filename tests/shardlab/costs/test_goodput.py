"""What failures cost: formulas against a search for the best interval, and against a job that is played."""

from random import Random

import pytest
from shardlab.costs.goodput import daly_interval, goodput, young_interval

SAVE, RESTART, BETWEEN = 30.0, 600.0, 11_125.0


def test_young_is_the_best_interval_of_the_first_order():
    def lost(interval):
        return SAVE / interval + interval / (2 * BETWEEN)

    best = young_interval(SAVE, BETWEEN)
    assert all(lost(best) < lost(best * factor) for factor in (0.9, 0.99, 1.01, 1.1))


def test_daly_is_near_the_best_goodput():
    best = max(range(100, 3000), key=lambda interval: goodput(interval, SAVE, 0.0, BETWEEN))
    assert daly_interval(SAVE, BETWEEN) == pytest.approx(best, rel=0.03)
    assert daly_interval(SAVE, 10.0) == 10.0  # saves that take longer than the time between two failures


def test_goodput_of_a_job_that_is_played():
    rng, interval = Random(0), young_interval(SAVE, BETWEEN)
    now = done = 0.0
    for _ in range(20_000):
        until = rng.expovariate(1 / BETWEEN)  # the next failure, from the moment the work goes on
        whole = interval + SAVE
        done += interval * int(until // whole)
        now += until + RESTART
    assert done / now == pytest.approx(goodput(interval, SAVE, RESTART, BETWEEN), rel=0.02)


def test_nothing_is_left_and_what_cannot_be():
    assert goodput(3600, SAVE, 600, 300) == 0.0
    for call in (lambda: young_interval(0, 1), lambda: goodput(0, 1, 1, 1), lambda: daly_interval(1, -1)):
        with pytest.raises(ValueError, match="more than 0 seconds"):
            call()
