"""Legal schedules pass. Each broken one fails with a sentence that names rank, slot and remedy."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe, gpipe, one_f_one_b, zb_h1
from shardlab.pipeline_parallel.check import check, problems
from shardlab.pipeline_parallel.check_messages import check_messages, message_problems
from shardlab.pipeline_parallel.communication import Message, MessageBatch, communicate
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Action, Kind, Overlap, num_stages, parse_slot
from shardlab.pipeline_parallel.simulation import peak_activations, simulate

sizes = st.tuples(st.integers(1, 5), st.integers(1, 11))


def slots(text):
    return [parse_slot(part) for part in text.split()]


def build(name, ranks, microbatches):
    """The schedule at the nearest size that it allows."""
    if name == "interleaved":
        microbatches = max(microbatches // ranks, 1) * ranks
    if name == "dualpipe":
        ranks, microbatches = ranks + ranks % 2, 2 * (ranks + 1) + microbatches // 2 * 2
    if name == "dualpipe-v":
        microbatches += 2 * ranks
    return BUILDERS[name](ranks, microbatches)


@pytest.mark.parametrize("name", BUILDERS)
@settings(max_examples=12, deadline=None)
@given(size=sizes)
def test_every_builder_is_legal_and_so_are_its_messages(name, size):
    schedule = build(name, *size)
    check(schedule, max_activations=peak_activations(schedule))
    check_messages(communicate(schedule))


def test_messages_are_listed_in_the_order_of_the_costs_given():
    schedule = BUILDERS["zbv"](4, 8)
    costs = Durations(forward=[1, 5, 1, 1, 3, 1, 1, 1], input_gradient=[1] * 8, weight_gradient=[2] * 8)
    program = communicate(schedule, costs)
    check_messages(program)
    assert program != communicate(schedule)
    timeline, order = simulate(schedule, costs), {}
    for rank, slots in enumerate(schedule):
        for slot, end in zip(slots, timeline.ends[rank], strict=True):
            order[str(slot).replace("B", "I")] = end
    for rank, steps in enumerate(program):
        batches = [step.messages for step in steps if isinstance(step, MessageBatch)]
        ends = [order[str(message.result)] for batch in batches for message in batch]
        assert ends == sorted(ends), rank


@settings(max_examples=25, deadline=None)
@given(size=sizes, seed=st.randoms(use_true_random=False), name=st.sampled_from(["1f1b", "zb-h1", "zbv"]))
def test_a_schedule_without_one_slot_or_with_one_twice_is_refused(size, seed, name):
    schedule = BUILDERS[name](*size)
    rank = seed.randrange(len(schedule))
    place = seed.randrange(len(schedule[rank]))
    slot = schedule[rank].pop(place)
    whole = num_stages(schedule) == num_stages(BUILDERS[name](*size))
    if whole:  # otherwise the last stage disappears with its only forward
        assert problems(schedule, microbatches=size[1])
    schedule[rank][place:place] = [slot, slot]
    assert problems(schedule, microbatches=size[1])


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (["0F0 0B0", "1F0"], "microbatch 0 has no backward in stage 1: add it to the rank that holds it"),
        (["0F0 0B0 0W0", "1F0 1B0"], "0W0 occurs 2 times, at rank 0, slot 2 and rank 0, slot 1"),
        (["0F0 1B0", "1F0 0B0"], "rank 0, slot 1: 1B0 needs the activations that 1F0 left on rank 1: move it there"),
        (["0F0 0B0 0F1 0B1", "1F1 1F0 1B0 1B1"], "rank 1, slot 0 .1F1. waits for 0F1, which is slot 2 of rank 0"),
        (["0B0 0F0"], "rank 0, slot 0 .0B0. waits for 0F0, which is slot 1 of rank 0"),
        (["0F0 0B0", "1B0 1F0"], "rank 0, slot 1 .0B0. waits for 1B0, which is slot 0 of rank 1"),
        (["0F0 0I0 0W0", "1F0 1I0 1I0 1W0"], "1I0 occurs 2 times, at rank 1, slot 1 and rank 1, slot 2: keep one$"),
        (["0F0 0B0 0B0"], "0B0 occurs 2 times, at rank 0, slot 1 and rank 0, slot 2: keep one$"),
        (["0F0 0W0 0I0"], "rank 0, slot 1 .0W0. waits for 0I0"),
        (["0F0 0B0 0F1 0B1", "1F0 1B0"], "1F1 is on no rank"),
        (["0F0 0B0", "2F0 2B0"], "1F0 is on no rank"),
        ([""], "empty"),
    ],
)
def test_illegal_schedules_say_where_and_what_to_do(ranks, words):
    with pytest.raises(ValueError, match=words):
        check([slots(text) for text in ranks])


def test_what_is_no_slot_is_named():
    with pytest.raises(ValueError, match=r"rank 0, slot 1 is .0B0.: put an Action"):
        check([[Action(Kind.F, 0, 0), "0B0"]])
    assert Action("F", 1, 3) == Action(Kind.F, 1, 3)
    for build_it, words in (
        (lambda: Action("X", 0, 0), "use F .forward., I"),
        (lambda: Action("F", -1, 0), "count both from 0"),
        (lambda: Overlap(Action("F", 0, 0), Action("I", 0, 1)), "overlap an F with a B"),
    ):
        with pytest.raises(ValueError, match=words):
            build_it()


def test_activation_bound():
    with pytest.raises(ValueError, match=r"rank 0, slot 4 .0F4.: 5 activations are held but only 4 allowed: put"):
        check(gpipe(4, 8), max_activations=4)
    check(one_f_one_b(4, 8), max_activations=[4, 3, 2, 1])
    with pytest.raises(ValueError, match="give 4"):
        check(one_f_one_b(4, 8), max_activations=[4, 3])


def message(text, source, destination):
    return Message(parse_slot(text), source, destination)


def test_two_ranks_that_send_first_deadlock_and_one_batch_does_not():
    forth, back = message("0F1", 0, 1), message("1I0", 1, 0)
    start = message("0F0", 0, 1)
    rank_0 = [*slots("0F0"), MessageBatch((start,)), *slots("0F1")]
    rank_1 = [MessageBatch((start,)), *slots("1F0 1I0")]
    first, second = MessageBatch((forth,)), MessageBatch((back,))
    apart = [[*rank_0, first, second], [*rank_1, second, first]]
    assert "post messages that cross in one batch" in message_problems(apart)[0]
    together = [[*rank_0, MessageBatch((forth, back))], [*rank_1, MessageBatch((back, forth))]]
    check_messages(together)


def test_swapped_missing_and_unused_messages():
    program = communicate(one_f_one_b(2, 3))
    first, second = (MessageBatch((message(f"0F{m}", 0, 1),)) for m in (0, 1))
    swapped = [program[0], [second, first, *slots("1F0 1B0 1F1 1B1")]]
    assert "takes it for 0F1: list both in the same order" in message_problems(swapped)[0]
    unheard = [[*slots("0F0"), first, *slots("0B0")], slots("1F0 1B0")]
    assert "which never receives it" in message_problems(unheard)[0]
    unsent = [slots("0F0 0B0"), [first, *slots("1F0 1B0")]]
    assert "never sends it" in message_problems(unsent)[0]
    late = [[*slots("0F0"), first], [*slots("1F0"), first]]
    assert "receive it first" in message_problems(late)[0]


@settings(max_examples=25, deadline=None)
@given(
    size=sizes,
    name=st.sampled_from(list(BUILDERS)),
    seconds=st.tuples(*[st.floats(0.1, 3) for _ in range(3)]),
    latency=st.floats(0, 1),
)
def test_the_clock_keeps_what_every_clock_must(size, name, seconds, latency):
    schedule = build(name, *size)
    durations = Durations(*seconds, message=latency)
    timeline = simulate(schedule, durations)
    begin_of, end_of = {}, {}
    for rank, lane in enumerate(schedule):
        assert all(end <= begin for end, begin in zip(timeline.ends[rank], timeline.begins[rank][1:], strict=False))
        assert timeline.busy[rank] == pytest.approx(sum(durations.of_slot(slot) for slot in lane))
        for place, slot in enumerate(lane):
            for action in [slot] if isinstance(slot, Action) else [slot.forward, slot.backward]:
                begin_of[action] = timeline.begins[rank][place]
                end_of[action] = timeline.ends[rank][place]
    for action, begin in begin_of.items():
        if action.kind is Kind.F and action.stage:
            assert end_of[Action(Kind.F, action.stage - 1, action.microbatch)] <= begin
    assert timeline.makespan >= max(timeline.busy) * (1 - 1e-9)


def test_costs_that_are_no_costs():
    for bad in (float("nan"), -1.0, float("inf")):
        with pytest.raises(ValueError, match="give finite seconds, 0 or more"):
            Durations(forward=bad)
    with pytest.raises(ValueError, match="no duration for stage 1"):
        simulate(gpipe(2, 2), Durations(forward=[1.0]))
    with pytest.raises(ValueError, match="give all lists the same length"):
        Durations(forward=[1.0], weight_gradient=[1.0, 2.0])


def test_uneven_costs_and_latency_are_seen():
    assert simulate(gpipe(2, 1), Durations([1.0, 3.0], 0.0, 0.0)).makespan == 4
    assert simulate(gpipe(3, 1), Durations(message=0.5)).makespan == 3 * 3 + 4 * 0.5
    assert simulate(dualpipe(4, 8), Durations(overlapped=2.0)).makespan < simulate(dualpipe(4, 8)).makespan


@pytest.mark.slow
def test_sixty_four_ranks_and_a_thousand_microbatches_are_checked_quickly():
    schedule = zb_h1(64, 1024)
    before = time.process_time()
    timeline = simulate(schedule)
    simulated = time.process_time()
    check(schedule)
    assert timeline.makespan == 3 * 1024 + 63
    assert simulated - before < 1.5
    assert time.process_time() - simulated < 2.5
