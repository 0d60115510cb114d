"""Tokens and experts as pictures: what they say is what they were given, and what cannot be read is refused."""

import pytest
from shardlab.figures import draw_fullest, draw_routing, draw_visits, new_axes

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


def test_what_cannot_be_drawn_is_named_with_what_can():
    _, ax = new_axes()
    with pytest.raises(ValueError, match="1 to 96 tokens and 1 to 32 experts"):
        draw_routing(ax, [[0.0] * 33], [[0]], [[True]], tokens="a")
    with pytest.raises(ValueError, match="which ranks divide"):
        draw_routing(ax, SCORES, [[0]] * 4, [[True]] * 4, tokens="abcd", num_ranks=3)
    with pytest.raises(ValueError, match="draw 1 to 6"):
        draw_fullest(ax, {}, target=1.2, title="")
    with pytest.raises(ValueError, match="1 to 32"):
        draw_visits(ax, {"space": [0, 0]}, title="")
