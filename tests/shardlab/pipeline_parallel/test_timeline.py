"""Timelines: simulated, marked, and exported."""

import json
from itertools import combinations

import pytest
from matplotlib.colors import to_rgba
from oracle import recorded
from shardlab import figures
from shardlab.figures.page import png
from shardlab.figures.palette import PALETTE
from shardlab.figures.timeline_marks import Marks, boxes_of, phases_of, waits_for, way_of
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe, gpipe, one_f_one_b, zb_h1, zb_h2
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Kind, Overlap, parse_slot
from shardlab.pipeline_parallel.simulation import simulate
from shardlab.pipeline_parallel.traces import from_csv, to_csv, to_trace

# ---- The figure matches the schedule ---------------------------------------------------------------------------------


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
    """Widths in pixels of the boxes for F of microbatch 0 on rank 0."""
    first = next(patch for patch in ax.patches if patch.get_facecolor() == to_rgba(PALETTE["forward"]))
    return first.get_window_extent().width


def test_timelines_of_one_figure_share_the_axis():
    """GPipe's bubble is equally long with 1, 4 and 8 microbatches, and looks so."""
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
    assert bool(extents) == is_written  # all or none: 16 x 32 has no room, and would show only one-digit numbers
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
    with pytest.raises(ValueError, match="at most 3000"):
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


# ---- Marks on a timeline match the simulated times -------------------------------------------------------------------


def drawn(schedule, **marks):
    _, ax = figures.new_axes(8, 2.6)
    return ax, figures.draw_timeline(ax, schedule, marks=Marks(**marks))


def steps_of(ax):
    """(begin, end) of the optimizer's boxes, by rank."""
    boxes = [patch for patch in ax.patches if patch.get_facecolor() == to_rgba(PALETTE["optimizer"])]
    return [(box.get_x(), box.get_x() + box.get_width()) for box in sorted(boxes, key=lambda box: box.get_y())]


def test_the_optimizer_waits_for_all_ranks_or_runs_on():
    ax, sentence = drawn(zb_h2(4, 8), optimizer=1)
    assert steps_of(ax) == [(27, 28)] * 4 and ax.get_xlim() == (0, 28)
    assert "optimizer steps at 27, when all have ended" in sentence
    ax, sentence = drawn(zb_h2(4, 8), optimizer=1, runs_on=True)
    assert steps_of(ax) == [(24, 25), (25, 26), (26, 27), (27, 28)]
    assert "as soon as it has ended" in sentence
    assert ax.get_title(loc="left").endswith(": no rank idles within its own span")
    ax, _ = drawn(zb_h1(4, 8), optimizer=1, runs_on=True)
    assert ax.get_title(loc="left").endswith(": 11% of a rank's own span idle")


def test_phases_change_at_the_first_backward_and_last_forward():
    assert phases_of(simulate(one_f_one_b(4, 8))) == [(10, 22), (8, 23), (6, 24), (4, 25)]
    ax, sentence = drawn(one_f_one_b(4, 8), phases=True)
    assert [text.get_text() for text in ax.texts if not text.get_text().isdigit()] == ["warm-up", "steady", "cool-down"]
    assert "first backwards begin at 10, 8, 6, 4, last forwards end at 22, 23, 24, 25" in sentence
    ax, _ = drawn(gpipe(4, 8), phases=True)  # backwards begin after all forwards, so there is no steady phase
    assert [text.get_text() for text in ax.texts if not text.get_text().isdigit()] == ["warm-up", "cool-down"]


def test_a_microbatch_goes_down_and_comes_back():
    way = way_of(simulate(zb_h1(4, 8)), 3)
    assert [rank for rank, _, _ in way] == [0, 1, 2, 3, 3, 2, 1, 0]
    assert [begin for _, begin, _ in way] == [3, 7, 8, 9, 10, 12, 14, 16]
    ax, sentence = drawn(zb_h1(4, 8), trace=3)
    frames = [patch for patch in ax.patches if not patch.get_fill() and patch.get_edgecolor() == (0, 0, 0, 1)]
    assert len(frames) == 8 and "microbatch 3 is on rank 0 at 3, rank 1 at 7" in sentence


def test_a_slot_waits_for_its_inputs_and_for_its_rank():
    timeline = simulate(zb_h1(4, 8))
    schedule = timeline.schedule
    for rank, slots in enumerate(schedule):
        for place in range(len(slots)):
            ends = [timeline.ends[r][p] for r, p in waits_for(timeline, (rank, place))]
            assert timeline.begins[rank][place] == max(ends, default=0)
    named = [str(schedule[r][p]) for r, p in waits_for(timeline, (1, 5))]
    assert str(schedule[1][5]) == "1I1" and sorted(named) == ["1F1", "1F3", "2I1"]
    with pytest.raises(ValueError, match="use ranks 0 to 3"):
        waits_for(timeline, (4, 0))


def test_what_is_lit_up_is_told():
    ax, sentence = drawn(zb_h1(4, 8), slot=(1, 5))
    assert "1I1 on rank 1 begins at 8 and waits for" in sentence and "2I1 (rank 2, ends at 8)" in sentence
    pale = [patch for patch in ax.patches if patch.get_alpha() == 0.65]
    assert len(pale) == 4 * 24 - 4


# ---- Exports can be read by other tools, and read back unchanged -----------------------------------------------------


@pytest.mark.parametrize("name", BUILDERS)
def test_csv_comes_back_unchanged(name):
    schedule = BUILDERS[name](2, 4)
    assert from_csv(to_csv(schedule)) == schedule


@pytest.mark.parametrize("name", BUILDERS)
def test_torch_reads_every_cell(name):
    from torch.distributed.pipelining.schedules import _Action

    for line in to_csv(BUILDERS[name](4, 8)).splitlines():
        for cell in line.split(","):
            assert str(_Action.from_str(cell)) == cell


def test_recorded_orders_can_be_played():
    for file in ("torch", "dualpipe", "zero_bubble"):
        for entry in recorded(file)[::9]:
            schedule = [[parse_slot(text) for text in texts] for texts in entry.texts]
            assert simulate(schedule).makespan == entry.figures["makespan"]


def test_bad_cells_are_named():
    with pytest.raises(ValueError, match="line 2, cell 3: '1X0' is not a slot"):
        from_csv("0F0,0B0\n1F0,,1X0\n")


def test_perfetto_trace_has_a_box_per_slot():
    schedule = dualpipe(2, 4)
    events = json.loads(to_trace(simulate(schedule), seconds_per_unit=1e-3))["traceEvents"]
    boxes = [event for event in events if event["ph"] == "X"]
    assert len(boxes) == sum(len(slots) for slots in schedule)
    assert max(box["ts"] + box["dur"] for box in boxes) == pytest.approx(12 * 1000)
