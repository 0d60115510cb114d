"""The figure shows what the schedule says."""

from itertools import combinations

import pytest
from matplotlib.colors import to_rgba
from shardlab import figures
from shardlab.figures.lanes import boxes_of
from shardlab.figures.page import png
from shardlab.figures.palette import PALETTE
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe, gpipe, one_f_one_b, zb_h1
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


def test_a_full_backward_is_one_box_with_a_seam_and_a_pair_is_two():
    durations = Durations(forward=1, input_gradient=2, weight_gradient=1)
    boxes = boxes_of(parse_slot("(1F3;0B0)OVERLAP_F_B"), 10, 14, durations)
    assert [(box.kind, box.begin, box.seam, box.end) for box in boxes] == [(Kind.F, 10, None, 11), (Kind.B, 11, 13, 14)]
    assert [(box.begin, box.seam, box.end) for box in boxes_of(parse_slot("0B0"), 0, 6, durations)] == [(0, 4, 6)]


def test_a_full_backward_has_no_line_inside_and_its_number_in_the_middle():
    _, ax = figures.new_axes(6, 2)
    figures.draw_timeline(ax, [[parse_slot("0F0"), parse_slot("0B0")]])
    inside = [patch for patch in ax.patches if patch.get_x() == 2 and patch.get_width() == 1]
    assert [patch.get_linewidth() for patch in inside] == [0]  # the half of the weights, from 2 to 3
    assert [(text.get_text(), text.get_position()[0]) for text in ax.texts] == [("0", 0.5), ("0", 2.0)]
    [legend] = ax.figure.legends
    assert any(text.get_text().startswith("B: full backward") for text in legend.get_texts())
    assert not any(text.get_text().startswith(("I:", "W:")) for text in legend.get_texts())


def widths_of(ax):
    """Pixels of the boxes that are F of microbatch 0 on rank 0."""
    first = next(patch for patch in ax.patches if patch.get_facecolor() == to_rgba(PALETTE["forward"]))
    return first.get_window_extent().width


def test_timelines_of_one_figure_share_the_axis():
    """The bubble of GPipe is as long with 1, 4 and 8 microbatches, and it looks so."""
    figure, axes = figures.new_rows(7, 3.6, 3)
    schedules = [gpipe(2, number) for number in (1, 4, 8)]
    sentence = figures.draw_timelines(axes, [("GPipe", schedule) for schedule in schedules])
    figure.draw_without_rendering()
    assert [ax.get_xlim() for ax in axes] == [(0, 27)] * 3
    assert len({round(widths_of(ax), 3) for ax in axes}) == 1
    assert [ax.get_xlabel() for ax in axes] == ["", "", "time"] and len(figure.legends) == 1
    assert sentence.count("idle by rank 3, 3") == 3 and sentence.count("In words") == 1


def test_a_timeline_can_end_where_another_one_does():
    ends = []
    for build in (one_f_one_b, zb_h1):
        _, ax = figures.new_axes(9, 2.6)
        figures.draw_timeline(ax, build(4, 8), until=33)
        ends.append(ax.get_xlim())
    assert ends == [(0, 33)] * 2


@pytest.mark.parametrize(("num_axes", "num_rows"), [(1, 0), (2, 1)])
def test_as_many_axes_as_timelines(num_axes, num_rows):
    _, axes = figures.new_rows(6, 3, num_axes)
    with pytest.raises(ValueError, match="one axes for each"):
        figures.draw_timelines(axes, [("GPipe", gpipe(2, 2))] * num_rows)


@pytest.mark.parametrize(
    ("width", "build", "is_written"), [(9, dualpipe(8, 20), True), (8, one_f_one_b(16, 32), False)]
)
def test_numbers_of_neighbours_do_not_run_together(width, build, is_written):
    figure, ax = figures.new_axes(width, 0.9 + 0.34 * len(build))
    figures.draw_timeline(ax, build)
    figure.draw_without_rendering()
    extents = [text.get_window_extent() for text in ax.texts]
    assert bool(extents) == is_written  # all or none: 16 x 32 has no room, and would show one-digit numbers alone
    air = figure.dpi / 72  # one point
    beside = [(a, b) for a, b in combinations(extents, 2) if a.y0 < b.y1 and b.y0 < a.y1]
    assert all(max(b.x0 - a.x1, a.x0 - b.x1) >= air for a, b in beside)


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
    chosen, ranks, microbatches, weight, slot, button, predicted, measured = box.children
    assert "simulated time 33" in predicted.value and "waits for" not in predicted.value
    assert (slot.min, slot.max) == (0, 64)
    slot.value = 1
    assert "0F0 on rank 0 begins at 0 and waits for nothing" in predicted.value
    slot.value = 64
    assert "0B7 on rank 0 begins at 31 and waits for 0F7 (rank 0, ends at 22)" in predicted.value
    weight.value = 0.0
    assert slot.value == 0
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
