"""What is marked on a timeline is what the clock says."""

import pytest
from matplotlib.colors import to_rgba
from shardlab import figures
from shardlab.figures.palette import PALETTE
from shardlab.figures.timeline_marks import Marks, phases_of, waits_for, way_of
from shardlab.pipeline_parallel.builders import gpipe, one_f_one_b, zb_h1, zb_h2
from shardlab.pipeline_parallel.simulation import simulate


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
    ax, _ = drawn(gpipe(4, 8), phases=True)  # backwards begin when all forwards have ended: no steady phase
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
