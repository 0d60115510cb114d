"""The benchmark of the labs: predictions scale with the machine's current speed, and every lab is included."""

from dataclasses import replace

import pytest
from shardlab.costs.clock.calibrated import SmallGPT, collective_seconds, gpt_pass_seconds
from shardlab.costs.clock.calibration import Together

from benchmarks import calibrated_labs as labs

CASES = {case.name: case for case in labs.cases()}
PASS = SmallGPT(labs.TOGETHER.layers, labs.TOGETHER.hidden, labs.TOGETHER_BATCH)


def test_every_lab_on_every_number_of_ranks():
    assert len(CASES) == 16 and {case.ranks for case in CASES.values()} == {2, 4}
    assert sum("ZeRO" in name for name in CASES) == 6


@pytest.fixture
def moment(calibration, monkeypatch):
    """Ranks on a machine that is `times` as slow as when it was calibrated, with the same sharing."""

    def at(times, ranks):
        alone = times * gpt_pass_seconds(calibration, PASS)
        compute = alone * calibration.of_ranks(ranks).slowdown
        message = times * collective_seconds(calibration, "all_reduce", ranks, labs.MESSAGE_BYTES)
        rounds = {"alone": [alone], "compute": [compute], "message": [message], "after": [compute + message]}
        rounds["beside"] = rounds["after"]
        monkeypatch.setattr(labs.shardlab, "run", lambda *_, ranks, **__: [rounds] * ranks)
        return labs.now(calibration, ranks)

    return at


@pytest.mark.parametrize("name", CASES)
def test_a_machine_half_as_fast_takes_twice_as_long(name, calibration, moment):
    case = CASES[name]
    usual, slow = case.predict(moment(1.0, case.ranks)), case.predict(moment(2.0, case.ranks))
    assert usual == pytest.approx(case.predict(calibration))
    assert slow == pytest.approx(usual if "asleep" in name else 2 * usual)  # sleeping takes as long on any machine


@pytest.mark.parametrize("name", [name for name in CASES if "asleep" not in name])
def test_ranks_that_share_cores_take_longer(name, calibration):
    case = CASES[name]
    crowded = {n: Together(2 * one.slowdown, one.hidden, one.links) for n, one in calibration.ranks.items()}
    assert case.predict(calibration) < case.predict(replace(calibration, ranks=crowded)) < 2 * case.predict(calibration)
    assert case.flops / 1.5e11 < case.predict(calibration)  # no lab beats the best rate of a product
