"""The picture of a block's tensors: what is filled on which rank, its letters and its sentence."""

import pytest
from matplotlib.colors import to_hex
from shardlab.figures import Region, draw_regions, new_axes
from shardlab.figures.palette import PALETTE

TENSORS = [Region("norm(x)", "positions"), Region("all of it", "whole", "all-gather"), Region("· A", "columns")]


def filled(tensors, rank, ranks=2):
    """(left, top, width, height) of what a rank holds of each tensor, in tiles of 1 by 1."""
    _, ax = new_axes()
    draw_regions(ax, tensors, ranks=ranks, title="t")
    own = [p for p in ax.patches if to_hex(p.get_facecolor()).upper() == PALETTE["forward"] and int(p.get_y()) == rank]
    boxes = [(p.get_x() % 1, p.get_y() % 1, p.get_width(), p.get_height()) for p in own]
    return [tuple(round(number / 0.7, 6) for number in box) for box in boxes]


def test_a_rank_holds_its_positions_then_everything_then_its_columns():
    assert filled(TENSORS, 0) == [(0, 0, 1, 0.5), (0, 0, 1, 1), (0, 0, 0.5, 1)]
    assert filled(TENSORS, 1) == [(0, 0.5, 1, 0.5), (0, 0, 1, 1), (0.5, 0, 0.5, 1)]


def test_a_sum_that_is_not_complete_is_hatched():
    _, ax = new_axes()
    draw_regions(ax, [Region("· B", "partial")], title="t")
    assert [patch.get_hatch() for patch in ax.patches if patch.get_hatch()] == ["++", "++"]


def test_the_sentence_and_the_letters_tell_the_states():
    _, ax = new_axes()
    sentence = draw_regions(ax, TENSORS, title="One half of a block")
    assert sentence == (
        "In words: One half of a block. norm(x) is split by positions; after the all-gather all of it is whole on "
        "every rank; · A is split by columns."
    )
    texts = [text.get_text() for text in ax.texts]
    assert "norm(x)\npositions" in texts and "all-gather" in texts and "rank 1" in texts


def test_what_cannot_be_drawn_is_refused():
    _, ax = new_axes()
    with pytest.raises(ValueError, match="a tensor cannot be torn: use whole, positions, columns, partial"):
        draw_regions(ax, [Region("x", "torn")], title="t")
    with pytest.raises(ValueError, match="1 tensors on 9 ranks cannot be drawn"):
        draw_regions(ax, [Region("x", "whole")], ranks=9, title="t")
