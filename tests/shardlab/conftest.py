"""A calibration as from a two-core machine, for tests that read one instead of measuring for half a minute."""

import pytest
from shardlab.costs.clock.calibration import COLLECTIVES, Calibration, Together, write_calibration
from shardlab.costs.traffic import Link


def together(slowdown, alpha, hidden=0.0):
    return Together(slowdown, hidden, {kind: Link(alpha, 1e-9) for kind in (*COLLECTIVES, "send")})


@pytest.fixture
def calibration():
    return Calibration(
        machine="two cores",
        measured="2026-11-22T12:00:00+00:00",
        device="cpu",
        transport="gloo",
        cores=2,
        memory_bytes=16 * 2**30,
        matmul={"float32": {16: 1e9, 64: 4e10, 1024: 1.5e11}, "bfloat16": {16: 1e9, 1024: 6e11}},
        memory={2**14: 5e9, 2**18: 5e10, 2**26: 2e10},
        operation=1e-5,
        pass_seconds=(1e-3, 5e-4, 4e-8),
        linear_seconds=(1e-4, 1e-8, 2e-9),
        adam_seconds=(1e-4, 1e-4, 3e-9),
        bookkeeping=((5e-5, 1e-9), (7e-5, 2e-9), (8e-5, 3e-9), (16e-5, 4e-9)),
        ranks={2: together(1.1, 3e-4), 4: together(2.2, 1e-3)},
    )


@pytest.fixture
def calibration_file(calibration, tmp_path):
    path = tmp_path / "machine.json"
    write_calibration(calibration, path)
    return path
