"""A sample of all meshes, which changes with every commit. `python -m benchmarks all-meshes` trains them all."""

import pytest
import shardlab
from shardlab.mesh import Mesh

from autograder.matrices.sample import fixed, some
from tests.shardlab.hybrid.all_meshes import cases, meshes
from tests.shardlab.hybrid.five_axes import differences, trained

REFUSALS = "sends gradients from hooks of a full backward", "a tied embedding in two stages of one rank"
SAMPLE = some(fixed("all-meshes"), cases(), 5)


def test_every_way_to_share_eight_ranks_is_there():
    found = list(meshes(8))
    assert len({(mesh.dp, mesh.pp, mesh.cp, mesh.tp) for mesh in found}) == 20  # three twos among four axes
    assert len(set(found)) == len(found) and all(mesh.world == 8 for mesh in found)
    assert Mesh(dp=2, cp=2, tp=2, ep=4, etp=1) in found and Mesh(tp=8, ep=8, etp=1) in found
    every = cases()
    assert len({str(case) for case in every}) == len(every)


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_a_mesh_fixed_does_what_one_process_does(case):
    try:
        by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=170)
    except shardlab.RanksFailed as error:
        assert any(sentence in str(error) for sentence in REFUSALS), error
        return
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-5 and norm < 1e-5 and weight < 1e-5, (loss, norm, weight)
