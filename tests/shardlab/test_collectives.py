"""Every collective on real ranks compared with its one-process twin on every rank, with bytes and messages.

All cases of one world size run in one call. The tests then read the ranks' results.
"""

import time
from functools import lru_cache
from typing import NamedTuple

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import collectives, meter
from shardlab.costs import traffic

SHAPES = [(8,), (7,), (3, 5), (1,), (0,), (2, 0), ()]
DTYPES = [torch.float32, torch.bfloat16, torch.int64]
WORLDS = [1, 2, 3, 4]


class Reply(NamedTuple):
    """One rank's result, its cost, and whether its input is unchanged."""

    got: object
    sent_bytes: float
    num_messages: int
    kinds: set
    input_unchanged: bool


def tensor_of(rank, shape, dtype):
    """Small integers, different on every rank, so that sums are exact in every dtype and order."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * (rank + 1) + 2 * rank) % 7).reshape(shape).to(dtype)


def observed(function, inputs, **arguments):
    before = [tensor.clone() for tensor in inputs]
    given = inputs if function in (collectives.ring_reduce_scatter, collectives.all_to_all) else inputs[0]
    with meter.record() as bill:
        got = function(given, **arguments)
    unchanged = all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True))
    return Reply(got, bill.sent_bytes, bill.num_messages, set(bill.kinds), unchanged)


def all_collectives_in(group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    answers = {}
    for shape in SHAPES:
        for dtype in DTYPES:
            mine = tensor_of(rank, shape, dtype)
            chunks = list(mine.reshape(-1).tensor_split(size))
            sizes = [chunk.numel() for chunk in chunks]
            case = (shape, dtype)
            answers["reduce_scatter", case] = observed(collectives.ring_reduce_scatter, chunks, group=group)
            answers["all_gather", case] = observed(
                collectives.ring_all_gather, [chunks[rank]], sizes=sizes, group=group
            )
            answers["ring", case] = observed(collectives.ring_all_reduce, [mine], group=group)
            answers["tree", case] = observed(collectives.tree_all_reduce, [mine], group=group)
            addressed = [mine + 8 * destination for destination in range(size)]
            answers["all_to_all", case] = observed(collectives.all_to_all, addressed, group=group)
    torch.manual_seed(rank)
    uneven_sums = torch.randn(1001)
    answers["ring", "rounding"] = observed(collectives.ring_all_reduce, [uneven_sums], group=group)
    answers["tree", "rounding"] = observed(collectives.tree_all_reduce, [uneven_sums], group=group)
    answers["ring", "transposed"] = observed(
        collectives.ring_all_reduce, [tensor_of(rank, (4, 6), torch.float32).t()], group=group
    )
    answers["ring", "with gradient"] = observed(
        collectives.ring_all_reduce, [torch.ones(5, requires_grad=True) * 2], group=group
    )
    return answers


def everything():
    """Run in the world, and in the group of all ranks but 0, where group ranks differ from global ranks."""
    answers = {"world": all_collectives_in(dist.group.WORLD)}
    if dist.get_world_size() > 2:
        others = dist.new_group(list(range(1, dist.get_world_size())))
        if dist.get_rank() > 0:
            answers["subgroup"] = all_collectives_in(others)
    return answers


@lru_cache
def on_ranks(world):
    return shardlab.run(everything, ranks=world, transport="gloo", timeout=60)


def rank_answers():
    """For each group of each world size, the answers by group rank."""
    return [pytest.param(w, "world", id=f"{w} ranks") for w in WORLDS] + [
        pytest.param(w, "subgroup", id=f"{w - 1} of {w} ranks") for w in WORLDS if w > 2
    ]


def answers_of(world, group):
    return [answers[group] for answers in on_ranks(world) if group in answers]


def cases(answers, name):
    return [case for kind, case in answers[0] if kind == name and not isinstance(case, str)]


def total(size, shape, dtype):
    return sum((tensor_of(rank, shape, dtype) for rank in range(1, size)), tensor_of(0, shape, dtype))


parametrised = pytest.mark.parametrize(("world", "group"), rank_answers())


@parametrised
def test_ring_reduce_scatter_leaves_chunk_r_on_rank_r(world, group):
    answers = answers_of(world, group)
    size = len(answers)
    for shape, dtype in cases(answers, "reduce_scatter"):
        chunks = total(size, shape, dtype).reshape(-1).tensor_split(size)
        for rank in range(size):
            answer = answers[rank]["reduce_scatter", (shape, dtype)]
            assert torch.equal(answer.got, chunks[rank]), (rank, shape, dtype)
            others = sum(chunk.nbytes for chunk in chunks) - chunks[rank].nbytes
            assert (answer.sent_bytes, answer.num_messages) == (others, size - 1)


@parametrised
def test_ring_all_gather_brings_every_chunk(world, group):
    answers = answers_of(world, group)
    size = len(answers)
    for shape, dtype in cases(answers, "all_gather"):
        chunks = [tensor_of(rank, shape, dtype).reshape(-1).tensor_split(size)[rank] for rank in range(size)]
        for rank in range(size):
            answer = answers[rank]["all_gather", (shape, dtype)]
            assert len(answer.got) == size
            assert all(torch.equal(got, chunk) for got, chunk in zip(answer.got, chunks, strict=True))
            others = sum(chunk.nbytes for chunk in chunks) - chunks[(rank + 1) % size].nbytes
            assert (answer.sent_bytes, answer.num_messages) == (others, size - 1)


@parametrised
def test_ring_all_reduce_sends_what_the_formula_says(world, group):
    answers = answers_of(world, group)
    size = len(answers)
    for shape, dtype in cases(answers, "ring"):
        expected = total(size, shape, dtype)
        for rank in range(size):
            answer = answers[rank]["ring", (shape, dtype)]
            assert torch.equal(answer.got, expected) and answer.got.shape == expected.shape
            elements = traffic.ring_sent_elements(expected.numel(), size, rank)
            assert answer.sent_bytes == elements * expected.element_size()
            assert answer.num_messages == traffic.all_reduce_messages(size, "ring")


@parametrised
def test_tree_all_reduce_sends_2n_minus_2_whole_tensors_in_all(world, group):
    answers = answers_of(world, group)
    size = len(answers)
    for shape, dtype in cases(answers, "tree"):
        expected = total(size, shape, dtype)
        at = [answers[rank]["tree", (shape, dtype)] for rank in range(size)]
        assert all(torch.equal(answer.got, expected) for answer in at)
        assert sum(answer.num_messages for answer in at) == 2 * (size - 1)
        assert at[0].sent_bytes == traffic.tree_all_reduce_bytes(size, expected.nbytes)


@parametrised
def test_all_to_all_is_a_transpose(world, group):
    answers = answers_of(world, group)
    size = len(answers)
    for shape, dtype in cases(answers, "all_to_all"):
        for rank in range(size):
            answer = answers[rank]["all_to_all", (shape, dtype)]
            for source, got in enumerate(answer.got):
                assert torch.equal(got, tensor_of(source, shape, dtype) + 8 * rank), (rank, source, shape, dtype)
            held = sum(got.nbytes for got in answer.got)
            assert answer.sent_bytes == traffic.all_to_all_bytes(size, held)
            assert answer.num_messages == size - 1


@parametrised
def test_only_messages_are_used_and_no_input_is_touched(world, group):
    for answers in answers_of(world, group):
        for name, answer in answers.items():
            assert answer.kinds <= {"send", "recv"} and answer.input_unchanged, name


@parametrised
def test_every_rank_has_the_same_bits_though_sums_round(world, group):
    answers = answers_of(world, group)
    for name in ("ring", "tree"):
        sums = [of_rank[name, "rounding"].got for of_rank in answers]
        assert all(torch.equal(sums[0], other) for other in sums)


@parametrised
def test_a_transposed_or_differentiable_tensor_is_summed_too(world, group):
    answers = answers_of(world, group)
    for of_rank in answers:
        assert torch.equal(of_rank["ring", "transposed"].got, total(len(answers), (4, 6), torch.float32).t())
        doubled = of_rank["ring", "with gradient"].got
        assert doubled.tolist() == [2.0 * len(answers)] * 5 and not doubled.requires_grad


def on_two_nodes_of_two(shapes):
    """Ranks 0, 1 are one node and 2, 3 the other. Groups are created in the same order on every rank."""
    rank = dist.get_rank()
    node_group = [dist.new_group(members) for members in ([0, 1], [2, 3])][rank // 2]
    cross_group = [dist.new_group(members) for members in ([0, 2], [1, 3])][rank % 2]
    answers = []
    for shape in shapes:
        with meter.record() as bill:
            got = collectives.hierarchical_all_reduce(
                tensor_of(rank, shape, torch.float32), node_group=node_group, cross_group=cross_group
            )
        other_node = {0, 1, 2, 3} - {rank // 2 * 2, rank // 2 * 2 + 1}
        crossed = sum(event.sent_bytes for event in bill.events if event.peer in other_node)
        answers.append((got, crossed, bill.sent_bytes))
    return answers


def test_hierarchical_all_reduce_crosses_nodes_with_half_a_tensor():
    shapes = [(8,), (7,), (4, 4), (1,), (0,)]
    answers = shardlab.run(on_two_nodes_of_two, shapes, ranks=4, transport="gloo")
    for place, shape in enumerate(shapes):
        expected = total(4, shape, torch.float32)
        for rank in range(4):
            got, crossed, sent = answers[rank][place]
            assert torch.equal(got, expected), (rank, shape)
            if expected.numel() % 4 == 0:
                assert crossed == traffic.hierarchical_all_reduce_cross_bytes(2, 2, expected.nbytes)
                assert sent == traffic.ring_all_reduce_bytes(4, expected.nbytes)


def wrong_calls():
    """The error of each wrong call. None of them sends anything, so one rank's mistake hangs no other rank."""
    world, sentences = dist.group.WORLD, []
    others = dist.new_group([1])
    two, three = [torch.ones(2)] * 2, [torch.ones(2)] * 3
    calls = [
        lambda: collectives.ring_reduce_scatter(three, group=world),
        lambda: collectives.all_to_all(three, group=world),
        lambda: collectives.all_to_all([torch.ones(2), torch.ones(3)], group=world),
        lambda: collectives.ring_all_gather(torch.ones(2), [2, 2, 2], group=world),
        lambda: collectives.ring_all_gather(torch.ones(2), [3, 3], group=world),
    ]
    if dist.get_rank() == 0:
        calls.append(lambda: collectives.ring_reduce_scatter(two, group=others))
    for call in calls:
        try:
            call()
        except ValueError as error:
            sentences.append(str(error))
    return sentences


def test_wrong_sizes_are_answered_with_a_sentence():
    sentences = shardlab.run(wrong_calls, ranks=2, transport="gloo")[0]
    words = [
        "give 2",
        "give 2",
        "one shape",
        "give 2, one per rank",
        "a flat chunk of 3",
        "not in this group",
    ]
    assert len(sentences) == len(words)
    for sentence, expected in zip(sentences, words, strict=True):
        assert expected in sentence


def time_three_calls():
    calls = []
    seconds = collectives.seconds_of(lambda: calls.append(0), group=None, repetitions=3)
    return len(seconds), len(calls), min(seconds) >= 0


def test_a_first_call_is_made_and_not_counted():
    assert shardlab.run(time_three_calls, ranks=2) == [(3, 4, True)] * 2
    with pytest.raises(ValueError, match="use 1 or more"):
        collectives.seconds_of(lambda: None, group=None, repetitions=0)


def late_on_one_rank(tensor, *, group):
    if dist.get_rank() == 1 and tensor.numel() == 2:
        time.sleep(0.05)
    return tensor


def test_an_all_reduce_takes_as_long_as_its_slowest_rank():
    first, second = shardlab.run(collectives.seconds_by_size, late_on_one_rank, [4, 8], ranks=2)
    assert first == second and min(first) > 0 and first[1] >= 0.05


@pytest.mark.parametrize(("cores", "expected"), [(8, 1.0), (4, 1.0), (2, 2.0), (None, 4.0)])
def test_four_ranks_share_the_cores_that_there_are(monkeypatch, cores, expected):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert collectives.ranks_per_core(4) == expected
