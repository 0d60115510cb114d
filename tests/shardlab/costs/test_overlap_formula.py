"""What hides behind a backward, by hand, and the figure's sentence."""

import pytest
from shardlab import figures
from shardlab.costs import overlap
from shardlab.figures.overlap import draw_overlap

LAYERS = [1.0, 2.0, 3.0]


def test_ten_and_eight():
    assert overlap.efficiency(10, 8) == pytest.approx(0.5556, abs=1e-4)
    assert overlap.efficiency(10, 0) == 1


def test_buckets_queue_for_the_link():
    ready = overlap.ready_times(2.0, LAYERS)
    assert ready == [3, 5, 8]
    timeline = overlap.transfers(ready, [4.0, 1.0, 1.0])
    assert timeline == [(3, 7), (7, 8), (8, 9)]
    assert overlap.exposed_seconds(8.0, timeline) == 1
    assert overlap.exposed_seconds(8.0, []) == 0


def test_one_bucket_hides_nothing():
    (transfer,) = overlap.transfers([8.0], [6.0])
    assert overlap.exposed_seconds(8.0, [transfer]) == 6


def test_impossible_times_are_refused():
    with pytest.raises(ValueError, match="one per bucket"):
        overlap.transfers([1.0], [])
    with pytest.raises(ValueError, match="more than 0"):
        overlap.efficiency(0, 1)


def test_the_figure_says_what_is_exposed():
    _, ax = figures.new_axes(7, 1.8)
    timeline = overlap.transfers(overlap.ready_times(2.0, LAYERS), [4.0, 1.0, 1.0])
    sentence = draw_overlap(ax, 2.0, LAYERS, timeline, title="Three buckets", limit_seconds=10)
    assert sentence.endswith("8 s of compute, 3 buckets, 1 s of communication exposed, efficiency 88.9%.")
    assert ax.get_title(loc="left") == "Three buckets: 89% efficiency"
    numbers = [text for text in ax.texts if text.get_position()[1] == 0]
    assert [text.get_text() for text in numbers] == ["F", "2", "1", "0"]
    assert numbers[1].get_position()[0] == 2 + LAYERS[0] / 2  # a layer's backward is one box: its number in the middle
