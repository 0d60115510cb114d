"""The square of a causal mask: whose blocks they are, in which step, and how much work that is."""

import pytest
from shardlab.figures import chunk_owners, chunk_work, draw_causal_square, new_axes


def test_each_block_has_its_step_and_hidden_ones_have_none():
    _, ax = new_axes()
    sentence = draw_causal_square(ax, [0, 1, 1, 0])
    steps = {(text.get_position()): text.get_text() for text in ax.texts if text.get_text().isdigit()}
    assert steps[0.5, 1.5] == "1" and steps[1.5, 2.5] == "0" and steps[2.5, 3.5] == "1" and (3.5, 0.5) not in steps
    assert sentence == (
        "In words: chunks belong to ranks [0, 1, 1, 0]; blocks computed: rank 0 4, rank 1 4. Most over mean is 1."
    )


def test_blocks_of_other_documents_are_no_work():
    assert chunk_work([0, 0, 1, 1]) == [2, 6] and chunk_work([0, 0, 1, 1], [2, 2]) == [2, 2]


def test_what_cannot_be_drawn_is_named_with_what_can():
    _, ax = new_axes()
    with pytest.raises(ValueError, match="draw 1 to 16"):
        draw_causal_square(ax, range(17))
    with pytest.raises(ValueError, match="let them add up"):
        chunk_work([0, 1, 2], [1, 1])
    with pytest.raises(ValueError, match="contiguous, zig-zag, striped"):
        chunk_owners("folded", 2)
