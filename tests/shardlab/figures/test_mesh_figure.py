"""The picture of groups: which boxes are marked, in its texts, its hatches and its sentence."""

import pytest
from matplotlib.colors import to_hex
from shardlab.figures import draw_groups, new_axes
from shardlab.figures.mesh import AXES
from shardlab.figures.palette import PALETTE
from shardlab.mesh import Mesh

MESH = Mesh(tp=8, pp=4, dp=2)


def drawn(mesh, rank, **options):
    _, ax = new_axes()
    sentence = draw_groups(ax, mesh, rank, **options)
    return sentence, [text.get_text() for text in ax.texts], ax


def test_every_rank_is_a_box_and_each_group_has_its_letter():
    sentence, texts, _ = drawn(MESH, 37)
    for rank in range(64):
        letters = "".join(
            letter for name, (_, _, letter) in AXES.items() if rank in MESH.group_of(37, name) and rank != 37
        )
        assert f"{rank} {letters}".strip() in texts
    assert "T: tp, 8 ranks on 1 node, NVLink" in texts and "P: pp, 4 ranks on 4 nodes, InfiniBand" in texts
    assert sentence == (
        "In words: 64 ranks on 8 nodes; rank 37 shares tp with 32, 33, 34, 35, 36, 37, 38, 39 (1 node, NVLink); dp "
        "with 37, 45 (2 nodes, InfiniBand); pp with 5, 21, 37, 53 (4 nodes, InfiniBand)."
    )


def test_a_rank_in_two_groups_has_a_strip_of_each():
    mesh = Mesh(tp=2, cp=2, dp=4, ep=4, etp=1, pp=2)
    _, texts, ax = drawn(mesh, 21)
    assert "20 TE" in texts and "23 CE" in texts
    strips = [patch for patch in ax.patches if patch.get_y() == 2 - 0.38 and 4 - 0.2 < patch.get_x() < 4.8]
    assert [to_hex(strip.get_facecolor()).upper() for strip in strips] == [PALETTE["forward"], PALETTE["optimizer"]]
    assert [strip.get_hatch() for strip in strips] == [AXES["tp"][1] or "", AXES["ep"][1]]


def test_only_asked_for_axes_and_those_with_neighbours_are_marked():
    assert "dp" not in drawn(MESH, 37, axes=("tp", "cp"))[0]
    assert drawn(Mesh(), 0)[0] == "In words: 1 rank on 1 node; rank 0 talks to nobody."
    assert "tp with 32, 33, 34, …, 63 (2 nodes, InfiniBand)" in drawn(Mesh(tp=32, dp=2), 40, ranks_per_node=16)[0]


def test_every_axis_can_be_told_without_its_colour():
    assert len({hatch for _, hatch, _ in AXES.values()}) == len({letter for *_, letter in AXES.values()}) == len(AXES)


@pytest.mark.parametrize(
    ("mesh", "rank", "options", "says"),
    [
        (MESH, 64, {}, "use 0 to 63"),
        (MESH, 0, {"axes": ("sp",)}, "use axes among"),
        (Mesh(dp=1024), 0, {}, "fewer replicas"),
        (MESH, 0, {"ranks_per_node": 64}, "at most"),
        (MESH, 0, {"ranks_per_node": 0}, "at most"),
    ],
)
def test_what_cannot_be_drawn_is_refused(mesh, rank, options, says):
    with pytest.raises(ValueError, match=says):
        drawn(mesh, rank, **options)
