"""All axes on ranks that share one GPU: over NCCL too, a mesh matches one process on a CPU."""

from dataclasses import replace

import pytest
import shardlab
from shardlab.context_parallel import Gathered, Ulysses, contiguous
from shardlab.hybrid import Settings
from shardlab.mesh import Mesh
from shardlab.pipeline_parallel.builders import dualpipe_v, interleaved, zbv
from shardlab.ranks.transports import NCCL_SHARED, choose_transport

from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, Case, differences, sgd, trained

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(choose_transport(4) != NCCL_SHARED, reason="needs one GPU and NCCL 2.30 or newer"),
]
TWO = Settings(num_microbatches=2, max_norm=0.1)
CASES = {  # each line is one call of four ranks, because creating a CUDA context takes seconds
    "tensor": [
        Case(Mesh(tp=4), TWO),
        Case(Mesh(tp=4), replace(TWO, sequence_parallel=True), optimizer=sgd),
        Case(Mesh(tp=2, dp=2), replace(TWO, recompute="selective", sequence_parallel=True)),
    ],
    "context": [
        Case(Mesh(cp=4), TWO),
        Case(Mesh(cp=2, dp=2), replace(TWO, context=Ulysses(), layout=contiguous)),
        Case(Mesh(cp=2, tp=2), replace(TWO, context=Gathered(), sequence_parallel=True), replace(DENSE, rope=True)),
    ],
    "experts": [
        Case(Mesh(dp=4, ep=2), TWO, moe=EXPERTS),
        Case(Mesh(dp=4, ep=4), replace(TWO, bias_rate=0.01), moe=EXPERTS),
        Case(Mesh(tp=2, dp=2, ep=2, etp=1), replace(TWO, sequence_parallel=True), moe=EXPERTS),
    ],
    "pipelines": [
        Case(Mesh(pp=2, dp=2), replace(TWO, zero=1, schedule=interleaved)),
        Case(Mesh(pp=2, cp=2), replace(TWO, schedule=dualpipe_v, num_microbatches=4)),
        Case(Mesh(pp=2, dp=2, ep=2), replace(TWO, schedule=zbv, bias_rate=0.01), moe=EXPERTS),
    ],
    "slices": [
        *(Case(Mesh(dp=2, cp=2), replace(TWO, zero=zero, replicas=2)) for zero in (1, 2, 3)),
        Case(Mesh(dp=2, tp=2, ep=2), replace(TWO, zero=3), moe=EXPERTS),
    ],
}


def all_trained(cases):
    return [trained(case, "cuda") for case in cases]


@pytest.mark.parametrize("name", CASES)
def test_a_mesh_does_what_one_process_does(name):
    by_rank = shardlab.run(all_trained, CASES[name], ranks=4, transport=NCCL_SHARED, timeout=120)
    for case, of_case in zip(CASES[name], zip(*by_rank, strict=True), strict=True):
        loss, norm, weight = differences(case, of_case)
        assert loss < 1e-9 and norm < 1e-9, (str(case), loss, norm)
        # Adam normalizes gradients, so a gradient that is only noise, as for a key's bias, moves a weight by noise
        assert weight < 1e-6, (str(case), weight)
