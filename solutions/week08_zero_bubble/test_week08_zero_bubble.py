"""Week 8: the numbers on its page, the reference values of its checks, and the facts behind its reading questions."""

from random import Random

import pytest
from shardlab.pipeline_parallel.builders import interleaved, one_f_one_b, v_half, zb_h1, zb_h2, zbv
from shardlab.pipeline_parallel.communication import MessageBatch, communicate
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Kind, parse_schedule
from shardlab.pipeline_parallel.simulation import peak_activations, simulate

from autograder.traces import Pipeline, record
from autograder.traces.places import INTERLEAVED
from autograder.weeks.week08_zero_bubble import bubbles, held, reading, v_schedule, wins


@pytest.mark.parametrize("seed", range(5))
def test_both_bubbles_are_the_printed_formulas(seed):
    for case in bubbles.CHECK.draw(Random(seed)):
        expected = bubbles.CHECK.make(case, Random(0)).expected[0]
        hops, f, i, w = (case[name] for name in bubbles.NAMES)
        assert expected == pytest.approx(((hops - 1) * (f + i + w), (hops - 1) * (f + i - w)))


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_postponed_weights_fill_the_places_that_1f1b_leaves_free(ranks):
    for rank in range(ranks):
        one, zero = held.CHECK.make(dict(zip(held.NAMES, (ranks, rank, 34, 16), strict=True)), Random(0)).expected[0]
        assert (one, zero) == ((ranks - rank) * 34, (ranks - rank) * 34 + rank * 16)
        assert zero <= ranks * 34  # table 2 of the paper: both peaks are p times M_B
    assert peak_activations(zb_h1(ranks, 2 * ranks), until=Kind.W) == [ranks] * ranks


def test_three_tries_to_place_w_save_a_tick_each():
    """The block of section 7, and the rule for rank 1 of 3."""
    after = "0F0 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1W0 1F1 1I1 1W1"
    later = after[0], "1F0 1I0 1F1 1I1 1W0 1W1"
    tries = [parse_schedule([row.split() for row in rows]) for rows in (after, later)]
    assert [simulate(one).makespan for one in (one_f_one_b(2, 2), *tries)] == [9, 8, 7]
    assert tries[1] == zb_h1(2, 2)
    assert " ".join(map(str, zb_h1(3, 4)[1])) == "1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3"


def test_the_lives_of_half_stages_are_those_of_the_table():
    begin_to_end = [8 - 2 * stage for stage in range(4)]  # F of stage s begins at s, its I ends at 8 - s
    by_rank = {"interleaved": [(0, 2), (1, 3)], "V": [(0, 3), (1, 2)]}
    sums = {name: [sum(begin_to_end[s] for s in own) for own in ranks] for name, ranks in by_rank.items()}
    assert sums == {"interleaved": [12, 8], "V": [10, 10]}


def test_zb_h2_idles_by_the_same_letters_with_b_for_the_input():
    timeline = simulate(zb_h2(4, 8), Durations(1, 1.2, 0.8))
    assert timeline.span_idle[0] == pytest.approx(3 * (1 + 1.2 - 2 * 0.8))
    assert simulate(zb_h2(4, 8)).span_idle == [0, 0, 0, 0]
    assert simulate(zb_h2(4, 8)).idle == [3, 3, 3, 3]


def test_zb_h1_idles_a_ninth_on_four_ranks():
    assert simulate(zb_h1(4, 8)).bubble == pytest.approx(1 / 9)


@pytest.mark.parametrize(("chunks", "boundaries"), [(1, 3), (2, 7), (4, 15)])
def test_chunks_divide_the_bubble_and_multiply_the_messages(chunks, boundaries):
    schedule = interleaved(4, 8, chunks) if chunks > 1 else one_f_one_b(4, 8)
    assert simulate(schedule, Durations(1 / chunks, 1 / chunks, 1 / chunks)).idle[0] == pytest.approx(9 / chunks)
    batches = [step for steps in communicate(schedule) for step in steps if isinstance(step, MessageBatch)]
    assert sum(len(batch.messages) for batch in batches) == 2 * (2 * 8 * boundaries)  # a send and a receive each


def test_v_half_needs_half_the_memory_and_interleaving_nearly_twice():
    for ranks, bound in (("half", v_half), ("ZBV", zbv)):
        held = peak_activations(bound(4, 8), until=Kind.W)
        assert max(held) == v_schedule.BOUNDS[ranks](4)
    assert peak_activations(interleaved(4, 8))[0] == 11
    assert simulate(v_half(4, 8)).idle[0] == 5


@pytest.mark.parametrize("seed", range(5))
def test_1f1b_wins_where_the_formula_says(seed):
    for case in wins.CHECK.draw(Random(seed)) + list(wins.CHECK.public):
        ranks, weight, extra = (case[name] for name in wins.NAMES)
        crossing = (ranks - 1) * (2 * weight - extra) / extra
        assert wins.CHECK.make(case, Random(0)).expected == [max(ranks, int(crossing) + 1)]
        assert crossing == round(crossing) or abs(crossing - round(crossing)) > 0.01  # never decided by rounding


@pytest.mark.parametrize(
    ("exercise", "name", "points", "right"),
    [
        ("v-schedule", "zbv_only", 1.5, "Right: ZBV."),
        ("v-schedule", "half_only", 1.5, "Right: half."),
        ("split-backward", "last_layer_first", 2 / 3, "Right: W."),
    ],
)
def test_partial_credit(judged, exercise, name, points, right):
    verdict = judged(f"week08.{exercise}", name)
    assert verdict.points == pytest.approx(points, abs=1e-3) and right in verdict.text


def test_predictions_come_from_the_run_of_the_layout():
    page = reading.recorded(reading.PAGE)
    assert page == {"before": 9, "forward": [1, 2], "backward": 0, "messages": 64}
    changed = reading.recorded(reading.PAGE | {"rank": 3, "chunks": 3})
    assert changed == {"before": 9, "forward": [1, 2], "backward": 1, "messages": 80}


def test_the_order_by_hand_on_the_page():
    """Two real ranks; the fake backend makes the same calls."""
    layout = Pipeline(world=2, tp=1, pp=2, chunks=2, microbatches=4, s=3, b=1, h=8)
    ranks = [record(layout, rank, INTERLEAVED, real=True) for rank in range(2)]
    assert ranks == [record(layout, rank, INTERLEAVED) for rank in range(2)]
    case = {"rank": 0, "pp": 2, "chunks": 2, "microbatches": 4, "visit": 5}
    assert reading.recorded(case) == {"before": 5, "forward": [0, 2], "backward": 1, "messages": len(ranks[0].calls)}
    assert len(ranks[0].calls) == 24
