"""Published runs against predictions: every run is a dot, the worst misses have names."""

import numpy as np
import pytest
from shardlab import figures
from shardlab.figures.published import draw_against_published

POINTS = [("good", 10.0, 10.5), ("fair", 4.0, 3.4), ("bad", 1.0, 0.4)]


def test_dots_band_and_names():
    _, ax = figures.new_axes()
    sentence = draw_against_published(ax, POINTS, what="Step time", unit="s", num_named=2)
    dots = ax.collections[-1]
    assert np.asarray(dots.get_offsets()).tolist() == [[measured, predicted] for _, measured, predicted in POINTS]
    assert sentence == (
        "In words: Step time: 67% of 3 published runs within 20%, 15% off in the median. "
        "The worst misses: bad -60%, fair -15%."
    )
    assert [text.get_text() for text in ax.texts][:2] == ["1", "2"] and ax.get_xlabel() == "measured, s"


def test_numbers_at_one_place_stand_side_by_side_off_the_line():
    _, ax = figures.new_axes()
    points = [("a", 10.0, 5.0), ("b", 10.0, 5.0), ("c", 10.0, 20.0), ("d", 100.0, 100.0)]
    draw_against_published(ax, points, what="Memory", unit="GiB", num_named=3)
    c, a, b = (text.xyann for text in ax.texts[:3])
    assert b[0] - a[0] >= 8 and a[1] == b[1] < 0 < c[1]


@pytest.mark.parametrize("points", [[], [("a", 0.0, 1.0)], [("a", 1.0, -1.0)], [("a", float("nan"), 1.0)]])
def test_points_that_cannot_be_drawn(points):
    _, ax = figures.new_axes()
    with pytest.raises(ValueError, match="at least one point"):
        draw_against_published(ax, points, what="", unit="s")
