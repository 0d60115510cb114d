"""A mesh of ranks, and its process groups."""

import json
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from itertools import combinations, permutations
from unittest.mock import patch

import pytest
import shardlab
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from megatron.core.parallel_state import RankGenerator
from shardlab.commands.cli import app
from shardlab.costs.hardware import ACCELERATORS
from shardlab.mesh import MEGATRON_ORDER, Mesh
from shardlab.mesh.axes import DENSE, mesh_of_world
from shardlab.mesh.grid import Grid
from shardlab.mesh.nodes import link_bytes_per_second, position
from shardlab.mesh.process_groups import TRAINING, create_process_groups, with_groups
from torch.distributed import device_mesh as torchs
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from typer.testing import CliRunner

# ---- Coordinates and groups: every rank is in one group per axis, as in Megatron-Core; and nodes. --------------------

SIZES = st.integers(1, 4)
MESHES = [
    {"tp": 8, "pp": 4, "dp": 2},
    {"tp": 8, "pp": 4, "dp": 32},
    {"tp": 2, "cp": 3, "dp": 2, "pp": 2},
    {"tp": 1, "pp": 1, "dp": 1},
    {"tp": 3, "dp": 5},
]


def megatrons(mesh: Mesh) -> RankGenerator:
    return RankGenerator(tp=mesh.tp, ep=1, dp=mesh.dp, pp=mesh.pp, cp=mesh.cp, order=mesh.order)


def test_rank_37_of_64():
    mesh = Mesh(tp=8, pp=4, dp=2)
    assert mesh.coordinates(37) == {"tp": 5, "cp": 0, "dp": 0, "pp": 2, "etp": 5, "ep": 0, "edp": 0}
    assert mesh.rank_at(tp=5, pp=2) == 37
    assert mesh.group_of(37, "tp") == [32, 33, 34, 35, 36, 37, 38, 39]
    assert mesh.group_of(37, "dp") == [37, 45]
    assert mesh.group_of(37, "pp") == [5, 21, 37, 53]


@pytest.mark.parametrize("sizes", MESHES)
@pytest.mark.parametrize("order", [MEGATRON_ORDER, "tp-pp-dp-cp-ep", "tp-cp-pp-ep-dp"])
def test_dense_groups_are_megatrons(sizes, order):
    mesh = Mesh(**sizes, order=order)
    for number in (1, 2, 3):
        for axes in combinations(DENSE, number):
            assert mesh.groups(*axes) == megatrons(mesh).get_ranks("-".join(axes)), axes


@pytest.mark.parametrize(("ep", "etp"), [(1, 1), (2, 1), (4, 2), (8, 1), (2, 4), (1, 2)])
def test_expert_groups_are_megatrons(ep, etp):
    mesh = Mesh(tp=2, cp=2, dp=4, pp=2, ep=ep, etp=etp)
    theirs = RankGenerator(tp=etp, ep=ep, dp=16 // (ep * etp), pp=2, cp=1, order=mesh.order)
    for ours, token in ((("etp",), "tp"), (("ep",), "ep"), (("edp",), "dp"), (("pp",), "pp"), (("etp", "ep"), "tp-ep")):
        assert mesh.groups(*ours) == theirs.get_ranks(token), ours


@given(SIZES, SIZES, SIZES, SIZES, st.permutations(["tp", "cp", "dp", "pp"]))
@settings(deadline=None, max_examples=60)
def test_coordinates_invert_ranks_and_groups_are_a_partition(tp, cp, dp, pp, order):
    mesh = Mesh(tp=tp, cp=cp, dp=dp, pp=pp, order="-".join(order)) if order[-1] == "pp" else None
    grid = mesh.dense if mesh else Grid(tuple(zip(order, (tp, cp, dp, pp), strict=True)))
    for rank in range(grid.world):
        assert grid.rank_at(grid.coordinates(rank)) == rank
    for axes in permutations(grid.sizes, 2):
        groups = grid.groups(*axes)
        assert sorted(rank for group in groups for rank in group) == list(range(grid.world))
        assert all(rank in group and grid.group_of(rank, *axes) == group for group in groups for rank in group)


def test_the_innermost_axis_is_the_first_of_the_order():
    assert Mesh(tp=2, dp=3).group_of(0, "tp") == [0, 1]
    assert Mesh(tp=2, dp=3, order="dp-tp").group_of(0, "tp") == [0, 3]
    assert Mesh(tp=2, dp=3, order="dp-tp").group_of(0, "dp") == [0, 1, 2]


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"tp": 0}, "1 or more"),
        ({"tp": 2.0}, "whole number"),
        ({"dp": True}, "whole number"),
        ({"tp": 2, "dp": 2, "ep": 3}, "use 1, 2 or 4"),
        ({"tp": 2, "dp": 2, "ep": 4}, "with etp = 2 use ep of 1 or 2"),
        ({"tp": 2, "dp": 2, "etp": 3}, "use 1, 2 or 4"),
        ({"tp": 2, "order": "dp-pp"}, "dp-pp-tp"),
        ({"tp": 2, "order": "tp-tp-dp"}, "once"),
        ({"tp": 2, "order": "tp,dp"}, "join each"),
        ({"tp": 2, "pp": 2, "dp": 2, "ep": 2, "etp": 1, "order": "tp-pp-dp-ep"}, "ends with pp"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_those_that_do(sizes, says):
    with pytest.raises(ValueError, match=says):
        Mesh(**sizes)


def test_a_world_that_does_not_divide_is_refused_with_those_that_do():
    assert mesh_of_world(1024, tp=8, pp=4).dp == 32
    with pytest.raises(ValueError, match="use 96 ranks, or a product among 1, 2, 4, 5, 10, 20, 25, 50 or 100"):
        mesh_of_world(100, tp=8, pp=4)
    with pytest.raises(ValueError, match="use 1 or more"):
        mesh_of_world(0)


def test_ranks_places_and_axes_that_are_not_there_are_refused():
    mesh = Mesh(tp=2, dp=2, ep=2)
    for call, says in [
        (lambda: mesh.coordinates(4), "use 0 to 3"),
        (lambda: mesh.coordinates(-1), "use 0 to 3"),
        (lambda: mesh.rank_at(tp=2), "use 0 to 1"),
        (lambda: mesh.groups("tp", "ep"), "cannot be combined"),
        (lambda: mesh.groups("sp"), "use axes among"),
        (lambda: mesh.groups("tp", "tp"), "once"),
        (lambda: position([], 8), "at least one"),
    ]:
        with pytest.raises(ValueError, match=says):
            call()


def test_tensor_groups_stay_in_a_node_and_the_others_leave_it():
    mesh, h100 = Mesh(tp=8, pp=4, dp=2), ACCELERATORS["h100"]
    links = {axis: {position(group, 8).link for group in mesh.groups(axis)} for axis in DENSE}
    assert links == {"tp": {"NVLink"}, "cp": {"none"}, "dp": {"InfiniBand"}, "pp": {"InfiniBand"}}
    assert position(mesh.group_of(37, "pp"), 8).members == {0: [5], 2: [21], 4: [37], 6: [53]}
    assert link_bytes_per_second(mesh.group_of(37, "tp"), h100) == h100.nvlink
    assert link_bytes_per_second(mesh.group_of(37, "dp"), h100) == h100.network
    assert position(Mesh(tp=8, dp=2, order="dp-tp").group_of(3, "tp"), 8).num_nodes == 2


def test_the_command_shows_the_groups_of_rank_37():
    result = CliRunner().invoke(app, ["mesh", "--tp", "8", "--pp", "4", "--dp", "2", "--rank", "37"])
    assert result.exit_code == 0
    assert "tp 5 of 8, cp 0 of 1, dp 0 of 2, pp 2 of 4" in result.output
    assert "5 21 37 53" in result.output and "4 nodes, InfiniBand" in result.output


def test_the_command_prints_json_and_refuses_what_does_not_fit():
    result = CliRunner().invoke(app, ["mesh", "--tp", "2", "--dp", "4", "--ep", "4", "--rank", "5", "--json"])
    told = json.loads(result.output)
    assert told["world"] == 8 and told["coordinates"]["ep"] == 2
    assert {row["axes"]: row["ranks"] for row in told["groups"]}["ep"] == [1, 3, 5, 7]
    refused = CliRunner().invoke(app, ["mesh", "--tp", "2", "--rank", "2"])
    assert refused.exit_code == 2 and "use 0 to 1" in refused.output


def test_neither_mesh_nor_command_needs_torch():
    program = "import shardlab.mesh.nodes, shardlab.commands.mesh, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ---- Real groups on real ranks, in one order; and 1,024 ranks on the fake backend, compared with torch's DeviceMesh. -


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
