"""Texts find their room: long titles are wrapped, labels that meet are moved apart, and axes have numbers enough."""

from itertools import combinations

import pytest
from shardlab import figures
from shardlab.figures.labels import keep_apart, wrap_titles

LONG = "Activations on one GPU of the first stage: tensor parallelism alone does not fit, so something else is cut"


@pytest.mark.parametrize("width", [4, 7, 12])
def test_a_title_stays_inside_its_figure(width):
    figure, ax = figures.new_axes(width, 2.5)
    figures.draw_bars(ax, {"a rank with a long name": 5e9}, title=LONG)
    wrap_titles(figure)
    figure.draw_without_rendering()
    title = next(child for child in ax.get_children() if getattr(child, "get_text", str)() == ax.get_title(loc="left"))
    assert title.get_window_extent().x1 <= figure.bbox.width
    assert title.get_text().replace("\n", " ") == LONG
    lines = title.get_text().split("\n")
    assert (len(lines) > 1) == (width < 12)
    assert min(map(len, lines)) > max(map(len, lines)) / 2


def test_labels_at_one_place_are_moved_apart_and_others_stay():
    figure, ax = figures.new_axes(6, 3)
    labels = [ax.annotate(name, (0.5, y), (4, 0), textcoords="offset points") for name, y in (("a", 0.5), ("b", 0.51))]
    far = ax.annotate("c", (0.5, 0.9), (4, 0), textcoords="offset points")
    keep_apart(figure, [*labels, far])
    low, high = (label.get_window_extent() for label in labels)
    assert high.y0 - low.y1 > 0 and far.get_position() == (4, 0)


SAMPLES = [(m, 1e3 * 10**size, m * 1e-4 + 1e-9 * 10 ** (3 + size)) for m in (4, 12) for size in range(5)]


@pytest.mark.parametrize("scale", [1.0, 1.6])
def test_the_fit_of_week_1_has_clear_labels_and_axes(scale):
    """Its two lines end side by side. scale: how far the measurements are from the prediction."""
    figure, ax = figures.new_axes(8, 4)
    samples = [(m, num_bytes, seconds * scale) for m, num_bytes, seconds in SAMPLES]
    figures.draw_predicted_against_measured(ax, samples, 1e-4, 1e-9)
    figure.draw_without_rendering()
    extents = [text.get_window_extent() for text in ax.texts]
    assert not [1 for a, b in combinations(extents, 2) if a.overlaps(b)]
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        assert sum(low <= tick <= high for tick in axis.get_majorticklocs()) >= 2


def test_a_range_within_one_power_of_ten_has_numbers_too():
    _, ax = figures.new_axes(8, 4)
    figures.draw_predicted_against_measured(ax, [(4, 1e6, 3e-3), (4, 3e6, 4e-3)], 5e-4, 5e-10)
    low, high = ax.get_ylim()
    assert sum(low <= tick <= high for tick in ax.yaxis.get_majorticklocs()) >= 2


def test_bars_have_one_unit_on_their_axis():
    figure, ax = figures.new_axes(7, 2)
    figures.draw_bars(ax, {"a": 1.3e6, "b": 1.97e6}, title="Two bars")
    figure.draw_without_rendering()
    written = [label.get_text() for label in ax.get_xticklabels()]
    assert written[0] == "0" and {text.split()[1] for text in written[1:]} == {"MB"}


def test_published_runs_of_one_power_of_ten_have_numbers():
    _, ax = figures.new_axes(8, 3)
    figures.draw_against_published(ax, [("a", 11.0, 12.0), ("b", 60.0, 50.0)], what="Step time", unit="s")
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        assert sum(low <= tick <= high for tick in axis.get_majorticklocs()) >= 2
