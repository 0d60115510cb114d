"""Every axis, alone and combined: losses, norms and all weights after some steps, compared with one process."""

from dataclasses import replace

import pytest
import shardlab
from shardlab.context_parallel import Gathered, Ulysses, contiguous
from shardlab.hybrid import Settings
from shardlab.mesh import Mesh
from shardlab.pipeline_parallel.builders import dualpipe_v, gpipe, interleaved, one_f_one_b, v_half, zb_h1, zbv

from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, Case, differences, sgd, trained

TWO = Settings(num_microbatches=2, max_norm=0.1)
HALVES = (one_f_one_b, zb_h1)
CASES = [
    Case(Mesh(dp=2), TWO),
    Case(Mesh(tp=2), TWO),
    Case(Mesh(tp=4), TWO),  # neighbors share a key-value head
    Case(Mesh(tp=4), replace(TWO, sequence_parallel=True), optimizer=sgd),
    Case(Mesh(cp=2), TWO),
    Case(Mesh(cp=2), replace(TWO, context=Ulysses(), layout=contiguous)),
    Case(Mesh(cp=2, tp=2), replace(TWO, context=Gathered(), sequence_parallel=True), replace(DENSE, rope=True)),
    Case(Mesh(pp=2), TWO),
    Case(Mesh(pp=2), replace(TWO, schedule=interleaved)),
    Case(Mesh(pp=2), replace(TWO, schedule=zb_h1)),
    Case(Mesh(pp=2), replace(TWO, schedule=zbv)),
    Case(Mesh(pp=2), replace(TWO, schedule=dualpipe_v, num_microbatches=4)),
    Case(Mesh(pp=2), replace(TWO, schedule=v_half, num_microbatches=4)),
    Case(Mesh(pp=2, dp=2, tp=2), replace(TWO, schedule=gpipe), replace(DENSE, tied=False)),
    Case(Mesh(pp=2, cp=2, tp=2), replace(TWO, sequence_parallel=True)),
    Case(Mesh(cp=2), TWO, replace(DENSE, heads=8, rope=True)),  # heads of width 2
    *(
        Case(Mesh(pp=2), replace(TWO, schedule=one), frozen=("token.*", "position.*", "blocks.[01].*"))
        for one in HALVES
    ),
    Case(Mesh(pp=2, dp=2), replace(TWO, zero=1), frozen=("blocks.[23].*", "norm.*", "head.*")),
    Case(Mesh(), TWO, moe=EXPERTS),
    Case(Mesh(dp=2), TWO, moe=EXPERTS),
    Case(Mesh(dp=2, ep=2), replace(TWO, bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=4, ep=2), TWO, moe=EXPERTS),
    Case(Mesh(tp=2, ep=2, etp=1), TWO, moe=EXPERTS),
    Case(Mesh(tp=2, dp=2, ep=2), replace(TWO, sequence_parallel=True), moe=EXPERTS),
    Case(Mesh(tp=2, cp=2, dp=2, ep=4, etp=1), replace(TWO, bias_rate=0.01), replace(DENSE, rope=True), moe=EXPERTS),
    Case(Mesh(pp=2, cp=2, dp=2, ep=2), replace(TWO, schedule=zbv), moe=EXPERTS),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mesh_does_what_one_process_does(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)


ALL_AXES = Mesh(dp=2, cp=2, tp=2, ep=2)
SHARDED = [
    *(Case(Mesh(dp=2), replace(TWO, zero=zero)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, cp=2), replace(TWO, zero=zero, replicas=2)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, pp=2), replace(TWO, zero=zero)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, pp=2), replace(TWO, zero=zero, schedule=interleaved), moe=EXPERTS) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, tp=4), replace(TWO, zero=zero, sequence_parallel=True)) for zero in (1, 2, 3)),
    *(Case(ALL_AXES, replace(TWO, zero=zero, bias_rate=0.01), moe=EXPERTS) for zero in (1, 2, 3)),
    Case(Mesh(dp=2, pp=2), replace(TWO, zero=1, schedule=zbv, num_microbatches=4)),
    Case(Mesh(dp=2), replace(TWO, zero=3, schedule=gpipe)),  # weights are gathered again for each backward
]


@pytest.mark.parametrize("case", SHARDED, ids=str)
def test_so_do_slices(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)


AGAIN = [
    Case(Mesh(tp=2), replace(TWO, recompute="selective", sequence_parallel=True)),
    Case(Mesh(cp=2, pp=2), replace(TWO, recompute="full"), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="stage", bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="full", schedule=zb_h1, bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="full", zero=3), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="stage", zero=3), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="selective", zero=2), moe=EXPERTS),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", AGAIN, ids=lambda case: f"{case}-{case.settings.recompute}")
def test_so_does_what_is_computed_again(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)
