"""The tensor-parallel block and dropout masks: states, messages and equal masks, in texts and sentences."""

import pytest
from shardlab.figures import draw_block, draw_masks, new_axes
from shardlab.figures.block import LAST_STEP, POINTS
from shardlab.figures.palette import PALETTE


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
