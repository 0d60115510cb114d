"""Figures of single axes: blocks, masks, exchanges, experts, regions of time, overlapped pairs."""

from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from shardlab.figures import (
    Region,
    chunk_owners,
    chunk_work,
    draw_block,
    draw_causal_square,
    draw_exchange,
    draw_fullest,
    draw_least_makespan,
    draw_masks,
    draw_regions,
    draw_routing,
    draw_visits,
    new_axes,
)
from shardlab.figures.block import LAST_STEP, POINTS
from shardlab.figures.bound import round_trips
from shardlab.figures.palette import PALETTE
from shardlab.figures.timeline import BACKWARD, FORWARD, draw_pair, pair_pieces
from shardlab.pipeline_parallel.bounds import least_makespan

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


@pytest.mark.parametrize("sizes", [(4, 8, 2), (4, 8, 1), (3, 5, 2), (2, 1, 1), (1, 4, 3), (3, 7, 9)])
def test_round_trips_end_at_the_bound_and_never_need_more_places(sizes):
    num_ranks, _, most = sizes
    trips = round_trips(*sizes)
    assert max(trip[-1].end for _, trip in trips) == least_makespan(*sizes)
    for place in range(min(most, num_ranks)):
        own = [(trip[0].begin, trip[-1].end) for lane, trip in trips if lane == place]
        assert all(end <= begin for (_, end), (begin, _) in pairwise(own))
    last = [trip[num_ranks - 1].begin for _, trip in trips[-1 - trips[-1][0] :]]
    assert all(after - before == 3 for before, after in pairwise(last))  # one F and one B on the last rank


def test_a_lower_bound_says_where_each_part_comes_from():
    _, ax = new_axes(8, 1.9)
    sentence = draw_least_makespan(ax, 4, 8, 2)
    assert "the last 2 of 8 enter after 3 full rounds, at 36 or later" in sentence and "ends at 51." in sentence
    assert ax.get_title(loc="left").endswith("no step takes less than 51 units")
    assert sum(patch.get_linewidth() == 1.8 for patch in ax.patches) == 2
    with pytest.raises(ValueError, match="too many to see"):
        draw_least_makespan(ax, 8, 100, 2)


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


def drawn(step, **options):
    _, ax = new_axes(9, 1.9)
    return draw_block(ax, step, **options), ax


def letters(ax):
    return [text.get_text() for text in ax.texts if text.get_text() in "RSP"]


def test_what_is_copied_forward_is_a_partial_sum_backward():
    dual = {("copy", "R", "P"), ("out", "P", "R"), ("down", "P", "R")}
    assert {(one.name, one.state, one.gradient) for one in POINTS if one.state != one.gradient} == dual
    assert all(one.gradient == "S" for one in POINTS if one.state == "S")


def test_two_all_reduces_each_way():
    forward, backward = drawn(len(POINTS) - 1)[0], drawn(LAST_STEP)[0]
    assert "R R R S S P R R R R S S P R R, with 2 all-reduces" in forward
    assert "R R R S S P R R R R S S P R R, with 2 all-reduces" in backward


@pytest.mark.parametrize(("step", "sends", "silent"), [(14, "g", "f"), (29, "f", "g")])
def test_g_sends_forward_and_f_backward(step, sends, silent):
    _, ax = drawn(step)
    colours = {(text.get_text(), text.get_color()) for text in ax.texts if text.get_text() in "fg"}
    assert colours == {(sends, PALETTE["communication"]), (silent, PALETTE["parameters"])}


@pytest.mark.parametrize("step", [0, 5, 6, 14, 15, 20, 21, 27, 28, 29])
def test_an_operator_turns_message_colored_with_its_all_reduce(step):
    sentence, ax = drawn(step)
    sent = sum(line.get_color() == PALETTE["communication"] for line in ax.lines)
    assert f"with {sent} all-reduce" in sentence


def test_a_walk_shows_as_many_tensors_as_it_has_reached():
    for step in (0, 5, 14, 15, 20, 29):
        reached = step + 1 if step < len(POINTS) else step - len(POINTS) + 1
        assert len(letters(drawn(step)[1])) == 2 * reached
    assert len(letters(drawn(14, num_ranks=4)[1])) == 4 * len(POINTS)


def test_a_split_tensor_is_drawn_as_each_ranks_own_columns():
    _, ax = drawn(14)
    place = [point.name for point in POINTS].index("heads")
    slices = [patch for patch in ax.patches if patch.get_width() == 0.36 and abs(patch.get_x() + 0.18 - place) < 0.3]
    assert [(patch.get_x() - place, patch.get_y()) for patch in slices] == [
        pytest.approx((-0.36, -0.36)),
        pytest.approx((0.0, 0.64)),
    ]


@pytest.mark.parametrize(("step", "ranks"), [(-1, 2), (30, 2), (3, 0), (3, 5)])
def test_a_block_that_cannot_be_drawn(step, ranks):
    with pytest.raises(ValueError, match="draw steps 0 to 29, with 1 to 4 ranks"):
        drawn(step, num_ranks=ranks)


def test_equal_masks_are_named_and_dropped_numbers_crossed():
    _, ax = new_axes()
    kept = [[True, False, True], [True, True, False]]
    sentence = draw_masks(ax, {"rank 0": kept, "rank 1": kept, "rank 2": [[1, 1, 1], [1, 1, 0]]}, title="One stream")
    assert sentence == (
        "In words: One stream. rank 0 drops 2, rank 1 drops 2, rank 2 drops 1. Equal masks: rank 0 and rank 1."
    )
    assert len(ax.patches) == 18 and len(ax.lines) == 2 * 5
    assert [text.get_text() for text in ax.texts] == ["rank 0", "rank 1", "rank 2"]


@pytest.mark.parametrize("masks", [{}, {"a": []}, {"a": [[]]}, {"a": [[1, 0], [1]]}, {"a": [[1] * 100] * 21}])
def test_masks_that_cannot_be_drawn(masks):
    _, ax = new_axes()
    with pytest.raises(ValueError, match=r"give at least one mask|cannot be read"):
        draw_masks(ax, masks, title="none")
