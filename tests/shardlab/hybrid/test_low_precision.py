"""bfloat16 passes with float32 sums, masters and states: close to one process, and stored values are float32."""

from dataclasses import replace
from typing import Any

import pytest
import shardlab
import torch
from shardlab.hybrid import Settings
from shardlab.mesh import Mesh
from shardlab.pipeline_parallel.builders import zbv

from tests.shardlab.hybrid.five_axes import EXPERTS, Case, differences, sgd, started, trained

LOW = Settings(num_microbatches=2, max_norm=0.1, compute_dtype=torch.bfloat16)
FLOAT32: dict[str, Any] = {"dtype": torch.float32, "optimizer": sgd}
CASES = [
    Case(Mesh(dp=2), LOW, **FLOAT32),
    Case(Mesh(tp=2, pp=2), replace(LOW, sequence_parallel=True, schedule=zbv), **FLOAT32),
    *(Case(Mesh(dp=2, cp=2), replace(LOW, zero=zero), **FLOAT32) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, tp=2, ep=2), replace(LOW, zero=zero), moe=EXPERTS, **FLOAT32) for zero in (0, 1, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_low_precision_stays_close_to_one_process(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert max(loss, norm) > 1e-7 and loss < 0.02 and norm < 0.1 and weight < 0.02, (loss, norm, weight)
    assert {tensor.dtype for *_, chunks in by_rank for *_, kind, _, _, tensor in chunks if kind != "step"} == {
        torch.float32
    }


def sums_of_many_small():
    """512 gradients of 1/1024 of the first: in bfloat16 each would vanish when added to the sum."""
    trainer, _ = started(Case(Mesh(), LOW, **FLOAT32))
    parameter = next(iter(trainer.places))
    assert parameter.dtype == torch.bfloat16
    with trainer.weights[0].passes():
        for size in (1.0, *[1 / 1024] * 512):
            (parameter * size).sum().backward()
    return parameter.grad.flatten()[0].item(), parameter.grad.dtype


def test_main_gradients_add_up_in_float32():
    assert shardlab.run(sums_of_many_small, ranks=1)[0] == (1.5, torch.float32)
