"""Real groups on real ranks, in one order; and 1,024 ranks on the fake backend, compared with torch's DeviceMesh."""

import time
from collections import Counter
from datetime import timedelta
from unittest.mock import patch

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.mesh import Mesh
from shardlab.mesh.axes import DENSE
from shardlab.mesh.process_groups import TRAINING, create_process_groups, with_groups
from torch.distributed import device_mesh as torchs
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore


@pytest.fixture
def fake():
    """Start a fake world, which answers at once and sends nothing."""

    def start(rank, world):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)

    yield start
    dist.destroy_process_group()


@pytest.mark.parametrize("rank", [0, 37, 1023])
def test_1024_ranks_have_these_groups(fake, rank):
    mesh = Mesh(tp=8, pp=4, dp=32)
    fake(rank, mesh.world)
    made = Counter()
    plain = torchs.new_group

    def counting(*args, **kwargs):
        made[len(kwargs["ranks"])] += 1
        return plain(*args, **kwargs)

    with patch.object(torchs, "new_group", counting):
        groups = create_process_groups(mesh)
    assert made == {8: 1024 // 8, 4: 1024 // 4, 32: 1024 // 32, 1: 1024}  # tp, pp, dp and cp: all ranks make all
    assert len(dist.distributed_c10d._world.pg_names) == 1 + len(DENSE) + len(TRAINING)  # a rank keeps its own
    for axes in ((name,) for name in DENSE):
        assert dist.get_process_group_ranks(groups.of(*axes)) == mesh.group_of(rank, *axes)
    assert dist.get_process_group_ranks(groups.of("cp", "dp")) == mesh.group_of(rank, "dp", "cp")
    assert dist.get_world_size(groups.of("tp", "pp")) == 32


@pytest.mark.parametrize("rank", [0, 13, 47])
def test_torchs_own_mesh_has_the_same_groups_and_coordinates(fake, rank):
    mesh = Mesh(tp=2, cp=3, dp=4, pp=2)
    fake(rank, mesh.world)
    theirs = init_device_mesh("cpu", (2, 4, 3, 2), mesh_dim_names=("pp", "dp", "cp", "tp"))
    for name in DENSE:
        assert dist.get_process_group_ranks(theirs.get_group(name)) == mesh.group_of(rank, name)
        assert theirs.get_local_rank(name) == mesh.coordinates(rank)[name]
    flat = theirs["dp", "cp"]._flatten("dp_cp").get_group()
    assert sorted(dist.get_process_group_ranks(flat)) == mesh.group_of(rank, "dp", "cp")


def test_experts_have_groups_of_their_own(fake):
    mesh = Mesh(tp=2, dp=4, pp=2, ep=4, etp=1)
    fake(5, mesh.world)
    groups = create_process_groups(mesh)
    assert dist.get_process_group_ranks(groups.of("ep")) == mesh.group_of(5, "ep") == [4, 5, 6, 7]
    assert dist.get_process_group_ranks(groups.of("edp")) == [1, 5]


def test_a_group_that_was_not_made_is_not_made_by_asking(fake):
    fake(0, 8)
    groups = create_process_groups(Mesh(tp=2, dp=2, pp=2))
    with pytest.raises(ValueError, match="no group of dp-tp: name it"):
        groups.of("dp", "tp")


def sums_by_axis(mesh):
    """The sum in each group if every rank contributes its own number."""
    groups = create_process_groups(mesh)
    sums = {}
    for axes in [("tp",), ("cp",), ("dp",), ("pp",), ("dp", "cp"), ("tp", "pp"), ("ep",), ("edp",)]:
        number = torch.tensor(2 ** dist.get_rank())
        dist.all_reduce(number, group=groups.of(*axes))
        sums[axes] = number.item()
    return sums


def test_eight_real_ranks_talk_in_their_groups():
    mesh = Mesh(tp=2, pp=2, dp=2, ep=2)
    for rank, sums in enumerate(shardlab.run(sums_by_axis, mesh, ranks=8, timeout=60)):
        assert sums == {axes: sum(2**member for member in mesh.group_of(rank, *axes)) for axes in sums}


def refused(mesh):
    with pytest.raises(ValueError, match=r"meshes|start 3") as caught:
        create_process_groups(mesh)
    return str(caught.value)


def test_ranks_with_different_meshes_are_told_and_nobody_hangs():
    meshes = shardlab.PerRank([Mesh(tp=2), Mesh(dp=2)])
    told = shardlab.run(refused, meshes, ranks=2, timeout=30)
    assert all("the ranks have different meshes" in text for text in told)
    assert all("start 3" in text for text in shardlab.run(refused, Mesh(tp=3), ranks=2, timeout=30))


def alone_in(group_of):
    """Rank 1 skips a call of a group. Returns how long rank 0 waits in it, and its error."""
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=3), dist.group.WORLD)
    groups = with_groups(create_process_groups(Mesh(dp=2)), ("tp", "dp"))
    if dist.get_rank() == 1:
        time.sleep(10)
        return 3.0, "timed out"
    began = time.monotonic()
    try:
        dist.all_reduce(torch.ones(1), group=groups.of(*group_of))
    except RuntimeError as error:
        return time.monotonic() - began, str(error).lower()
    return 0.0, ""


@pytest.mark.parametrize("group_of", [("dp",), ("dp", "cp"), ("tp", "dp")])
def test_a_group_waits_no_longer_than_the_world(group_of):
    for waited, told in shardlab.run(alone_in, group_of, ranks=2, timeout=60, observe=False):
        assert 2.5 < waited < 9 and ("timed out" in told or "timeout" in told)
