"""The figure shows what the schedule says."""

import pytest
from shardlab import figures
from shardlab.figures.page import png
from shardlab.figures.timeline import boxes_of
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe, gpipe, one_f_one_b
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Kind, Overlap, parse_slot
from shardlab.pipeline_parallel.simulation import simulate


def test_the_numbers_of_week_7_stand_in_title_and_sentence():
    figure, ax = figures.new_axes(9, 2.4)
    sentence = figures.draw_timeline(ax, one_f_one_b(4, 8), name="1F1B")
    assert ax.get_title(loc="left") == "1F1B, 4 ranks, 8 microbatches: 27% of the time idle"
    assert "simulated time 33; idle by rank 9, 9, 9, 9" in sentence
    assert "own span 9, 6, 3, 0; at most 4, 3, 2, 1 activations" in sentence
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert png(figure)


@pytest.mark.parametrize("name", ["zb-h1", "dualpipe"])
def test_no_text_is_wider_than_its_box(name):
    figure, ax = figures.new_axes(6, 2.4)
    schedule = BUILDERS[name](2, 12)
    figures.draw_timeline(ax, schedule)
    figure.draw_without_rendering()
    frames = [patch for patch in ax.patches if not patch.get_fill() and patch.get_linewidth() > 1]
    assert len(frames) == sum(isinstance(slot, Overlap) for slots in schedule for slot in slots)
    for text in ax.texts:
        assert text.get_fontsize() >= 7
        inside = [
            p for p in ax.patches if p.get_window_extent().contains(*text.get_window_extent().get_points().mean(0))
        ]
        assert any(patch.get_window_extent().width >= text.get_window_extent().width for patch in inside)


def test_a_full_backward_is_two_halves_and_a_pair_is_three():
    durations = Durations(forward=1, input_gradient=2, weight_gradient=1)
    boxes = boxes_of(parse_slot("(1F3;0B0)OVERLAP_F_B"), 10, 14, durations)
    assert [(box.kind, box.begin, box.end) for box in boxes] == [(Kind.F, 10, 11), (Kind.I, 11, 13), (Kind.W, 13, 14)]
    assert [box.end - box.begin for box in boxes_of(parse_slot("0B0"), 0, 6, durations)] == [4, 2]


def test_a_measured_timeline_is_called_so():
    _, ax = figures.new_axes(9, 2.4)
    schedule = dualpipe(2, 4)
    assert "measured time 12" in figures.draw_timeline(ax, schedule, measured=simulate(schedule))
    assert ax.get_xlabel() == "time, measured"


def test_too_much_to_see_is_refused():
    _, ax = figures.new_axes()
    with pytest.raises(ValueError, match="3000 or fewer"):
        figures.draw_timeline(ax, gpipe(16, 1024))


def test_the_explorer_follows_its_sliders_and_runs():
    ran = []

    def run(schedule, durations):
        ran.append(len(schedule))
        return simulate(schedule, durations)

    box = figures.schedule_explorer(run=run)
    chosen, ranks, microbatches, weight, button, predicted, measured = box.children
    assert "simulated time 33" in predicted.value
    weight.value = 0.0
    assert "simulated time 22" in predicted.value
    button.click()
    assert ran == [4]
    assert "Measured against predicted: +0.0%" in measured.value
    chosen.value = "dualpipe"
    assert measured.value == ""
    microbatches.value = 9
    assert predicted.value == "<p>half of the microbatches enter at each end: use 8 or 10, not 9</p>"
    assert button.disabled
    ranks.value = 2
    microbatches.value = 8
    assert "simulated time" in predicted.value
