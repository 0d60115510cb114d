"""Figures that were hard to read: colors of two lines, paired bars, digits in narrow boxes, and names of sliders."""

import ipywidgets as widgets
import numpy as np
import pytest
from matplotlib.colors import to_hex
from shardlab import figures
from shardlab.costs import traffic
from shardlab.figures.palette import PALETTE, ink, luminance
from shardlab.figures.widgets import CONTROL_WIDTH, fit_names
from shardlab.pipeline_parallel import builders

ALPHA, BETA = 4e-5, 5e-10


def titled(draw, *arguments, **options):
    _, ax = figures.new_axes(8, 4)
    return draw(ax, *arguments, **options), ax


def test_ring_and_tree_differ_in_color_and_dashes_in_both_figures():
    samples = [(12, 1e6, 1e-3), (12, 4e6, 3e-3), (4, 2e6, 1e-3), (4, 8e6, 4e-3)]
    names = {12: "ring", 4: "tree"}
    _, fit = titled(figures.draw_predicted_against_measured, samples, ALPHA, BETA, names=names)
    _, crossing = titled(figures.draw_ring_against_tree, 4, ALPHA, BETA)
    ways = [[(to_hex(line.get_color()), line.get_linestyle()) for line in ax.lines] for ax in (fit, crossing)]
    ring, tree = (to_hex(PALETTE["communication"]), "-"), ("#000000", "--")
    assert ways[0][:2] == [ring, tree] and ways[1][0] == ring and ways[1][2] == tree
    assert {"ring,\n12 messages", "tree,\n4 messages"} <= {text.get_text() for text in fit.texts}


@pytest.mark.parametrize("turns", [1.0, 4 / 3, 2.0])
def test_the_lines_cross_where_the_title_says_when_ranks_share_a_core(turns):
    said, ax = titled(figures.draw_ring_against_tree, 4, ALPHA, BETA, turns=turns)
    crossing = float(np.asarray(ax.lines[-1].get_xdata())[0])
    link = {"alpha": ALPHA, "beta": BETA}
    ring, tree = (traffic.all_reduce_seconds(4, crossing, **link, algorithm=name) for name in ("ring", "tree"))
    assert turns * ring == pytest.approx(tree)
    assert ("share a core" in said) == (turns > 1)


def test_a_ring_with_many_turns_never_wins():
    said, ax = titled(figures.draw_ring_against_tree, 4, ALPHA, BETA, turns=4.0)
    assert "longer than a tree for every tensor" in said
    assert ax.get_title(loc="left") == "4 ranks (4 ranks share a core): the ring never wins"


def test_paired_bars_carry_their_number_and_their_part():
    groups = {"qwZ": {"inside": 2e3, "between": 4e3}, "hpZ": {"inside": 5e3, "between": 1e3}}
    said, ax = titled(figures.draw_paired_bars, groups, title="Fewer between")
    assert said == "In words: Fewer between. qwZ: 2 KB inside, 4 KB between; hpZ: 5 KB inside, 1 KB between."
    assert [text.get_text() for text in ax.texts] == [
        *("2 KB · inside", "4 KB · between", "5 KB · inside", "1 KB · between"),
    ]
    assert [bar.get_alpha() for bar in ax.patches] == [0.4, 1.0, 0.4, 1.0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["qwZ", "hpZ"]


@pytest.mark.parametrize("groups", [{}, {"a": {}}, {"a": {"x": 1.0}, "b": {"y": 1.0}}])
def test_bars_that_are_no_pairs_are_refused(groups):
    _, ax = figures.new_axes()
    with pytest.raises(ValueError, match="bars cannot be paired"):
        figures.draw_paired_bars(ax, groups, title="")


def test_the_digits_of_a_large_dualpipe_are_upright():
    _, ax = figures.new_axes(10, 3.9)
    figures.draw_timeline(ax, builders.dualpipe(8, 20), name="DualPipe")
    numbers = [text for text in ax.texts if text.get_text().isdigit()]
    assert len(numbers) > 300 and {text.get_rotation() for text in numbers} == {0.0}


def test_a_long_name_of_a_slider_gets_room():
    short, long = (widgets.IntSlider(description=name) for name in ("Ranks", "kilobytes_per_second"))
    fit_names([short, long])
    assert short.style.description_width == long.style.description_width == "162px"
    assert long.layout.width == f"{162 + CONTROL_WIDTH}px"
    fit_names([short])
    assert short.style.description_width == "80px"


@pytest.mark.parametrize("colour", PALETTE.values())
def test_text_in_ink_can_be_read_on_white(colour):
    assert 1.05 / (luminance(ink(colour)) + 0.05) >= 4.49
