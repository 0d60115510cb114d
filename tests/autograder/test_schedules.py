"""Schedules from students are read safely, refused with a sentence, and compared with a reference."""

import re
from random import Random

import pytest
from shardlab.pipeline_parallel.builders import dualpipe, gpipe, interleaved, one_f_one_b, zb_h1
from shardlab.pipeline_parallel.schedule import Schedule, parse_schedule

from autograder.checks import schedules
from autograder.checks.base import Reply
from autograder.checks.schedules import WrongSchedule, drawn_sizes, schedule_in

SIZES = {"num_ranks": 4, "num_microbatches": 8}


def texts(schedule: Schedule) -> list[list[str]]:
    return [[str(slot) for slot in slots] for slots in schedule]


def answer(value) -> Reply:
    return Reply([{"answers": [{"value": {"plain": value}}]}], None, 0, "")


def refusal(value, **sizes) -> str:
    with pytest.raises(WrongSchedule) as refused:
        schedule_in(answer(value), **{**SIZES, **sizes})
    return str(refused.value)


@pytest.mark.parametrize("build", [gpipe, one_f_one_b, zb_h1])
def test_texts_become_the_schedule_that_they_spell(build):
    assert schedule_in(answer(texts(build(4, 8))), **SIZES) == build(4, 8)
    assert parse_schedule(texts(build(4, 8))) == build(4, 8)


def test_more_stages_than_ranks_and_two_copies_of_a_stage():
    assert schedule_in(answer(texts(interleaved(4, 8, 2))), **SIZES, stages=8) == interleaved(4, 8, 2)
    sizes = {"num_ranks": 4, "num_microbatches": 10}
    assert schedule_in(answer(texts(dualpipe(4, 10))), **sizes, copies=2) == dualpipe(4, 10)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "for each of the 4 ranks"),
        ([["0F0"]], "for each of the 4 ranks"),
        (["0F0", "1F0", "2F0", "3F0"], "The entry of rank 0 must be a list"),
        ([["0F0"], [1], [], []], "Rank 1, slot 0 is not a short string"),
        ([["0F0"] * 10**6, [], [], []], "Rank 0 has 1000000 slots; all ranks together need at most 96"),
        ([["9" * 50 + "F0"], [], [], []], "Rank 0, slot 0 is not a short string"),
        ([["9" * 30 + "F0"], [], [], []], "names stage " + "9" * 30),
        ([["0F8"], [], [], []], "0F8 names microbatch 8, but microbatches are numbered 0 to 7"),
        ([["F0"], [], [], []], "rank 0, slot 0: 'F0' is not a slot"),
        ([["0F0"], [], [], []], "have no slots"),
        ([[], [], [], []], "have no slots"),
    ],
)
def test_what_is_no_schedule_is_refused_with_a_sentence(value, words):
    assert words in refusal(value)


def test_what_cannot_run_is_named_by_rank_slot_and_missing_input():
    backward_first = texts(one_f_one_b(4, 8))
    backward_first[3][0], backward_first[3][1] = backward_first[3][1], backward_first[3][0]
    assert "rank 3, slot 0 (3B0) waits for 3F0" in refusal(backward_first)
    short = texts(gpipe(4, 8))
    short[2].remove("2B5")
    assert "microbatch 5 has no backward in stage 2" in refusal(short)


def spoilt(whole: list[list[str]]):
    """Yield invalid schedules: one slot missing, one slot duplicated, or two neighboring slots swapped."""
    for rank, slots in enumerate(whole):
        for place in range(len(slots)):
            ways = (
                slots[:place] + slots[place + 1 :],
                [*slots, slots[place]],
                slots[:place] + slots[place : place + 2][::-1] + slots[place + 2 :],
            )
            yield from ([way if other == rank else whole[other] for other in range(len(whole))] for way in ways)


@pytest.mark.parametrize(("build", "strange"), [(gpipe, r"\d[IW]\d"), (one_f_one_b, r"\d[IW]\d"), (zb_h1, r"\d[B]\d")])
def test_a_sentence_uses_the_letters_of_the_schedule(build, strange):
    sentences = []
    for value in spoilt(texts(build(3, 4))):
        try:
            schedule_in(answer(value), num_ranks=3, num_microbatches=4)
        except WrongSchedule as wrong:
            sentences.append(str(wrong))
    assert len(sentences) > 20 and not [one for one in sentences if re.search(strange, one)]


def case_and_task(build, **case):
    case = {**SIZES, **case}
    return case, schedules.schedule_task("f", build)(case, Random(0))


def test_a_slow_order_is_told_where_it_waits_longest():
    case, task = case_and_task(gpipe)
    one_at_a_time = parse_schedule([[f"{r}{k}{m}" for m in range(8) for k in "FB"] for r in range(4)])
    problem = schedules.as_quick()(case, task, one_at_a_time)
    assert problem == (
        "Legal, but the step takes 96, but 33 is possible. The longest wait: rank 0 is idle for 9 before 0B0, "
        "its slot 1."
    )
    assert schedules.as_quick()(case, task, one_f_one_b(4, 8)) is None


def test_memory_and_order_and_homes_are_held_against_the_reference():
    case, task = case_and_task(one_f_one_b)
    assert "rank 0 holds the activations of 8 microbatches at once; 4 are enough" in str(
        schedules.held_as_expected()(case, task, gpipe(4, 8))
    )
    assert "rank 0, slot 4 is 0F4" in str(schedules.same_order(case, task, gpipe(4, 8)))
    assert schedules.same_order(case, task, one_f_one_b(4, 8)) is None
    swapped = one_f_one_b(4, 8)[::-1]
    assert schedules.same_homes(case, task, swapped) == "Rank 0 computes stages [3]; it holds [0]."


def test_drawn_sizes_have_fewer_as_many_and_more_microbatches_than_ranks():
    for seed in range(20):
        sizes = [(size["num_ranks"], size["num_microbatches"]) for size in drawn_sizes(Random(seed))]
        assert {(m > p) - (m < p) for p, m in sizes} == {-1, 0, 1}
        assert all(p <= 8 and m <= 24 for p, m in sizes)
