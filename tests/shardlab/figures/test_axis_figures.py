"""Figures of single axes: masks, exchanges, experts, regions of time, overlapped pairs."""

from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from shardlab.figures import (
    Region,
    chunk_owners,
    chunk_work,
    draw_causal_square,
    draw_exchange,
    draw_fullest,
    draw_regions,
    draw_routing,
    draw_visits,
    new_axes,
)
from shardlab.figures.palette import PALETTE
from shardlab.figures.timeline import BACKWARD, FORWARD, draw_pair, pair_pieces

# ---- The square of a causal mask: owners of blocks, their step, and the amount of work -------------------------------


@pytest.mark.parametrize(
    ("owners", "documents", "title"),
    [
        ([0, 1, 2], [], "Contiguous: the largest work is 1.67 times the mean"),
        ([0, 1, 0, 1], [], "Striped: the largest work is 1.25 times the mean"),
        ([0, 1, 1, 0], [2, 2], "Zig-zag, 2 documents: the largest work is 1 times the mean"),
        ([1, 0, 1, 0], [4], "Another layout: the largest work is 1.25 times the mean"),
    ],
)
def test_the_square_is_titled_with_its_layout(owners, documents, title):
    _, ax = new_axes()
    draw_causal_square(ax, owners, documents=documents)
    assert ax.get_title(loc="left") == title


def test_each_block_has_its_step_and_hidden_ones_have_none():
    _, ax = new_axes()
    sentence = draw_causal_square(ax, [0, 1, 1, 0])
    steps = {(text.get_position()): text.get_text() for text in ax.texts if text.get_text().isdigit()}
    assert steps[0.5, 1.5] == "1" and steps[1.5, 2.5] == "0" and steps[2.5, 3.5] == "1" and (3.5, 0.5) not in steps
    assert sentence == (
        "In words: zig-zag: chunks belong to ranks [0, 1, 1, 0]; blocks computed: rank 0 4, rank 1 4. "
        "Largest over mean: 1."
    )


def test_blocks_of_other_documents_are_no_work():
    assert chunk_work([0, 0, 1, 1]) == [2, 6] and chunk_work([0, 0, 1, 1], [2, 2]) == [2, 2]


def test_what_cannot_be_drawn_is_named_with_what_can():
    _, ax = new_axes()
    with pytest.raises(ValueError, match="draw 1 to 16"):
        draw_causal_square(ax, range(17))
    with pytest.raises(ValueError, match="do not add up to"):
        chunk_work([0, 1, 2], [1, 1])
    with pytest.raises(ValueError, match="contiguous, zig-zag, striped"):
        chunk_owners("folded", 2)


# ---- The square of an all-to-all: a number for each pair, with arrivals below ----------------------------------------


def test_each_pair_has_its_rows_and_each_rank_what_arrives():
    _, ax = new_axes()
    sentence = draw_exchange(ax, [[1, 2], [0, 3]])
    at = {text.get_position(): text.get_text() for text in ax.texts}
    assert [at[x, y] for y in (0.5, 1.5) for x in (0.5, 1.5)] == ["1", "2", "0", "3"]
    assert [text.get_text() for text in ax.texts if text.get_verticalalignment() == "top"][:2] == ["1", "5"]
    assert sentence == (
        "In words: 6 rows among 2 ranks, 67% of them stay local. Ranks receive 1, 5. Fullest over mean: 1.667."
    )


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "for each of 1 to 16 ranks"),
        ([[1, 2], [3]], "give a row of 2 counts"),
        ([[1, -2], [3, 1]], "0 or more"),
        ([[1] * 17] * 17, "for each of 1 to 16 ranks"),
        ([[0, 0], [0, 0]], "give at least one"),
    ],
)
def test_an_exchange_that_cannot_be_drawn_is_named(rows, sentence):
    _, ax = new_axes()
    with pytest.raises(ValueError, match=sentence):
        draw_exchange(ax, rows)


# ---- Tokens and experts as pictures: they show what they were given, and unreadable input is refused -----------------


SCORES = [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1], [0.7, 0.2, 0.6], [0.1, 0.2, 0.3]]


def test_choices_are_dots_and_dropped_ones_crosses():
    _, ax = new_axes()
    experts, kept = [[0], [0], [0], [2]], [[True], [True], [False], [True]]
    sentence = draw_routing(ax, SCORES, experts, kept, tokens="ab \n", num_ranks=2)
    dots, crosses = (line for line in ax.lines if line.get_marker() in "ox")
    assert list(zip(*dots.get_data(), strict=True)) == [(0, 0), (1, 0), (3, 2)]
    assert list(zip(*crosses.get_data(), strict=True)) == [(2, 0)]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "␣", "·"]
    assert sentence == (
        "In words: 4 tokens of 2 ranks choose 1 of 3 experts each. Choices by expert: 3, 0, 1. The fullest has 2.25 "
        "times the mean. 1 of 4 choices are dropped."
    )


def test_lines_end_in_the_sentence():
    _, ax = new_axes()
    sentence = draw_fullest(ax, {"nothing": [4.0, 4.0], "bias": [4.0, 1.1]}, target=1.2, title="A bias balances")
    assert "nothing: 4.00, at the end 4.00; bias: 4.00, at the end 1.10. The target is 1.2." in sentence


def test_kinds_without_a_visit_are_left_out():
    _, ax = new_axes()
    sentence = draw_visits(ax, {"space": [8, 2], "digit": [0, 0], "vowel": [1, 3]}, title="Who sees what")
    assert sentence == "In words: Who sees what. space most often expert 0 (80%); vowel most often expert 1 (75%)."
    assert [label.get_text() for label in ax.get_yticklabels()] == ["space", "vowel"]


def test_experts_that_cannot_be_drawn_are_named():
    _, ax = new_axes()
    with pytest.raises(ValueError, match="1 to 96 tokens and 1 to 32 experts"):
        draw_routing(ax, [[0.0] * 33], [[0]], [[True]], tokens="a")
    with pytest.raises(ValueError, match="a multiple of 3 ranks"):
        draw_routing(ax, SCORES, [[0]] * 4, [[True]] * 4, tokens="abcd", num_ranks=3)
    with pytest.raises(ValueError, match="draw 1 to 6"):
        draw_fullest(ax, {}, target=1.2, title="")
    with pytest.raises(ValueError, match="1 to 32"):
        draw_visits(ax, {"space": [0, 0]}, title="")


# ---- The picture of a block's tensors: filled parts per rank, letters and sentence -----------------------------------


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


# ---- Inside an overlapped pair: pieces start after their dependencies, and each lane does one thing at a time --------


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("seconds", [(1.0, 2.0, 0.5), (1.0, 2.0, 1.0), (0.3, 1.7, 0.4), (2.0, 1.0, 0.0)])
def test_pieces_wait_for_their_own_microbatch_and_lanes_hold_one_at_a_time(seconds, together):
    pieces = {piece.name: piece for piece in pair_pieces(*seconds, together=together)}
    assert pieces.keys() == {*FORWARD, *BACKWARD}
    for half in (FORWARD, BACKWARD):
        for before, after in pairwise(half):
            assert pieces[before].end <= pieces[after].begin
    for lane in (0, 1):
        mine = sorted((piece.begin, piece.end) for piece in pieces.values() if piece.lane == lane)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(mine))


@pytest.mark.parametrize(
    ("seconds", "in_turn", "as_a_pair"),
    [((1.0, 2.0, 0.5), 5.0, 3.0), ((1.0, 2.0, 1.0), 7.0, 4.0), ((1.0, 2.0, 0.0), 3.0, 3.0)],
)
def test_a_pair_takes_the_longer_lane(seconds, in_turn, as_a_pair):
    lasts = [max(piece.end for piece in pair_pieces(*seconds, together=together)) for together in (False, True)]
    assert lasts == [in_turn, as_a_pair]


def test_the_figure_says_both_times():
    figure, ax = new_axes(9.0, 2.8)
    sentence = draw_pair(ax, 1.0, 2.0, 0.5)
    assert "take 5 s" in sentence and sentence.endswith("of the other half, 3 s.") and figure is not None
    assert [label.get_text() for label in ax.get_yticklabels()][2] == "as a pair: device"
    with pytest.raises(ValueError, match="give seconds, 0 or more"):
        draw_pair(ax, -1.0, 2.0, 0.5)
