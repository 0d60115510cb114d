"""What the meter records, and the traffic it sums up."""

import subprocess
import sys
from functools import lru_cache

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import traffic

# ---- The bill of every collective and message: kind, payload, ring bytes, group, order and place. --------------------

NUM = 12  # float32 numbers: divisible by 2, 3 and 4
WHOLE = 4 * NUM  # bytes


def collectives(size, rank):
    """(name, call, kind, payload bytes) for every way to communicate. The payload is the whole tensor."""
    whole, part = torch.ones(NUM), torch.ones(NUM // size)
    parts = [torch.ones(NUM // size) for _ in range(size)]
    at_root = parts if rank == 0 else None
    return [
        ("all_reduce", lambda: dist.all_reduce(whole), "all_reduce", WHOLE),
        ("all_reduce_coalesced", lambda: dist.all_reduce_coalesced([whole, part]), "all_reduce", WHOLE + WHOLE // size),
        ("reduce_scatter", lambda: dist.reduce_scatter(part, parts), "reduce_scatter", WHOLE),
        ("reduce_scatter_tensor", lambda: dist.reduce_scatter_tensor(part, whole), "reduce_scatter", WHOLE),
        ("all_gather", lambda: dist.all_gather(parts, part), "all_gather", WHOLE),
        ("all_gather_into_tensor", lambda: dist.all_gather_into_tensor(whole, part), "all_gather", WHOLE),
        ("broadcast", lambda: dist.broadcast(whole, 0), "broadcast", WHOLE),
        ("reduce", lambda: dist.reduce(whole, 0), "reduce", WHOLE),
        ("gather", lambda: dist.gather(part, at_root, 0), "gather", WHOLE),
        ("scatter", lambda: dist.scatter(part, at_root, 0), "scatter", WHOLE),
        ("all_to_all", lambda: dist.all_to_all(list(whole.chunk(size)), parts), "all_to_all", WHOLE),
        ("all_to_all_single", lambda: dist.all_to_all_single(torch.empty(NUM), whole), "all_to_all", WHOLE),
        ("barrier", lambda: dist.barrier(), "barrier", 0),  # noqa: PLW0108 - called on the rank
    ]


def make_every_call():
    bills = {}
    for name, call, kind, payload in collectives(dist.get_world_size(), dist.get_rank()):
        with meter.record() as bill:
            call()
        bills[name] = (kind, payload, bill)
    return bills


@lru_cache
def bills_of(size):
    return shardlab.run(make_every_call, ranks=size, transport="gloo")


@pytest.mark.parametrize("size", [2, 4])
def test_kind_payload_group_and_place_of_every_collective(size):
    for bills in bills_of(size):
        for name, (kind, payload, bill) in bills.items():
            assert [(e.kind, e.payload_bytes, e.members) for e in bill.events] == [
                (kind, payload, tuple(range(size)))
            ], name
            assert bill.events[0].group_size == size
            assert "of test_record.py" in bill.events[0].where, name
            assert bill.events[0].end is not None, name
            assert bill.events[0].begin <= bill.events[0].end


@pytest.mark.parametrize("size", [2, 4])
def test_sent_bytes_of_every_collective(size):
    for rank, bills in enumerate(bills_of(size)):
        for name, (kind, payload, bill) in bills.items():
            rounds = {"all_reduce": 2, "barrier": 0}.get(kind, 1)
            if kind == "gather":  # from each to rank 0
                rounds = 0 if rank == 0 else 1 / (size - 1)
            if kind == "scatter":  # from rank 0 to each
                rounds = 1 if rank == 0 else 0
            assert bill.sent_bytes == rounds * (size - 1) * payload / size, name
            assert bill.num_messages == 0


def messages():
    rank, half = dist.get_rank(), torch.ones(3, 2, dtype=torch.bfloat16)
    with meter.record() as bill:
        if rank == 0:
            dist.send(half, 1)
            dist.recv(half, 1, tag=5)
            dist.batch_isend_irecv([dist.P2POp(dist.isend, half, 1)])[0].wait()
            dist.isend(half, 1).wait()
        else:
            dist.recv(half)  # from any
            dist.send(half, 0, tag=5)
            dist.batch_isend_irecv([dist.P2POp(dist.irecv, half, 0)])[0].wait()
            dist.irecv(half, 0).wait()
    return bill


def test_messages_and_their_peers():
    sender, receiver = shardlab.run(messages, ranks=2, transport="gloo")
    assert sender.kinds == ["send", "recv", "send", "send"]
    assert receiver.kinds == ["recv", "send", "recv", "recv"]
    assert [event.peer for event in sender.events] == [1, 1, 1, 1]
    assert [event.peer for event in receiver.events] == [None, 0, 0, 0]
    assert {(event.shape, event.dtype, event.payload_bytes) for event in sender.events} == {((3, 2), "bfloat16", 12)}
    assert (sender.sent_bytes, sender.num_messages, sender.count("recv")) == (36, 3, 1)
    assert (receiver.sent_bytes, receiver.num_messages) == (12, 1)


def in_a_subgroup():
    groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    rank = dist.get_rank()
    with meter.record() as bill:
        dist.all_reduce(torch.ones(4), group=groups[rank % 2])
        dist.broadcast(torch.ones(4), group=groups[rank % 2], group_src=1)
        if rank < 2:
            dist.send(torch.ones(4), group=groups[rank], group_dst=1)
        else:
            dist.recv(torch.ones(4), group=groups[rank % 2], group_src=0)
    return bill


def test_a_subgroup_is_named_by_its_ranks_of_the_world():
    for rank, bill in enumerate(shardlab.run(in_a_subgroup, ranks=4, transport="gloo")):
        members = (rank % 2, rank % 2 + 2)
        assert {event.members for event in bill.events} == {members}
        assert bill.events[-1].peer == members[1 if rank < 2 else 0]
        assert bill.events[0].sent_bytes == 16


def nested():
    with meter.record() as outer:
        dist.barrier()
        with meter.record() as inner:
            dist.all_reduce(torch.ones(1))
        dist.barrier()
    dist.barrier()
    return outer.kinds, inner.kinds


def test_bills_may_be_nested_and_end():
    outer, inner = shardlab.run(nested, ranks=2)[0]
    assert (outer, inner) == (["barrier", "all_reduce", "barrier"], ["all_reduce"])


def overlapped():
    tensor, weights = torch.ones(1 << 20), torch.ones(200, 200)
    with meter.record() as bill:
        work = dist.all_reduce(tensor, async_op=True)
        for _ in range(20):
            weights = weights @ weights / 200
        dist.barrier()
        work.wait()
        dist.all_reduce(tensor)
    return [(event.begin, event.end) for event in bill.events]


def test_begin_and_end_prove_an_overlap():
    for first, barrier, last in shardlab.run(overlapped, ranks=2):
        assert first[0] < barrier[0] < barrier[1] < first[1]  # the barrier is inside the all-reduce
        assert first[1] <= last[0] < last[1]


def alone():
    with meter.record() as bill:
        dist.all_reduce(torch.ones(4))
    return bill.sent_bytes


def test_one_rank_alone_sends_nothing():
    assert shardlab.run(alone, ranks=1) == [0]


def test_without_ranks_a_bill_is_empty():
    with meter.record() as bill:
        torch.ones(3).sum()
    assert (bill.sent_bytes, bill.kinds) == (0, [])


# ---- The formulas compared with a separate message-by-message count, and with numbers computed by hand. --------------

ALPHA, BETA = 20e-6, 1e-9


def test_a_gradient_of_14_gb_on_8_ranks():
    assert traffic.naive_all_reduce_bytes(8, 14e9) == (98e9, 98e9)
    assert traffic.ring_all_reduce_bytes(8, 14e9) == 24.5e9
    assert traffic.all_reduce_seconds(8, 14e9, alpha=0, beta=1 / 50e9) == pytest.approx(0.49)
    assert traffic.all_reduce_seconds(8, 14e9, alpha=0, beta=1 / 50e9, algorithm="naive") == pytest.approx(3.92)


def test_from_8_to_64_ranks_only_the_latency_term_grows_ninefold():
    assert traffic.ring_all_reduce_bytes(8, 1.0) == 1.75
    assert traffic.ring_all_reduce_bytes(64, 1.0) == 1.96875
    assert [traffic.all_reduce_messages(n, "ring") for n in (8, 64)] == [14, 126]
    assert [traffic.all_reduce_messages(n, "tree") for n in (8, 64)] == [6, 12]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("num_elements", [0, 1, 7, 24])
def test_elements_sent_are_counted_message_by_message(num_ranks, num_elements):
    sizes = traffic.ring_chunk_sizes(num_elements, num_ranks)
    assert sum(sizes) == num_elements and max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)
    for rank in range(num_ranks):
        reduce_scatter = [sizes[(rank - 1 - step) % num_ranks] for step in range(num_ranks - 1)]
        all_gather = [sizes[(rank - step) % num_ranks] for step in range(num_ranks - 1)]
        sent = traffic.ring_sent_elements(num_elements, num_ranks, rank)
        assert sent == sum(reduce_scatter) + sum(all_gather)
        if num_elements % num_ranks == 0:
            assert sent == traffic.ring_all_reduce_bytes(num_ranks, num_elements)


def test_one_rank_sends_nothing_and_waits_for_nothing():
    for bytes_of in (
        traffic.ring_reduce_scatter_bytes,
        traffic.ring_all_gather_bytes,
        traffic.ring_all_reduce_bytes,
        traffic.tree_all_reduce_bytes,
        traffic.broadcast_bytes,
        traffic.all_to_all_bytes,
    ):
        assert bytes_of(1, 1e6) == 0
    for algorithm in ("ring", "tree", "naive"):
        assert traffic.all_reduce_seconds(1, 1e6, alpha=ALPHA, beta=BETA, algorithm=algorithm) == 0


def test_a_ring_all_reduce_takes_its_two_halves():
    halves = traffic.reduce_scatter_seconds(6, 1e6, alpha=ALPHA, beta=BETA)
    halves += traffic.all_gather_seconds(6, 1e6, alpha=ALPHA, beta=BETA)
    assert traffic.all_reduce_seconds(6, 1e6, alpha=ALPHA, beta=BETA) == pytest.approx(halves)


def test_all_to_all_of_eight_experts():
    """16,384 tokens, 2 experts each, 4,096 numbers in bf16, over 8 ranks: 29.4 MB per rank, 235 MB in total."""
    per_rank = 16384 * 2 * 4096 * 2 / 8
    assert traffic.all_to_all_bytes(8, per_rank) == pytest.approx(29.36e6, rel=1e-3)


def test_across_two_nodes_of_two_half_a_tensor_crosses():
    assert traffic.hierarchical_all_reduce_cross_bytes(2, 2, 8.0) == 4.0
    assert traffic.hierarchical_all_reduce_cross_bytes(1, 8, 8.0) == 0.0


@pytest.mark.parametrize("num_ranks", [4, 6, 8, 64])
def test_tree_and_ring_take_equally_long_at_the_crossover(num_ranks):
    crossover = traffic.tree_ring_crossover_bytes(num_ranks, ALPHA, BETA)

    def seconds(size, algorithm):
        return traffic.all_reduce_seconds(num_ranks, size, alpha=ALPHA, beta=BETA, algorithm=algorithm)

    assert seconds(crossover, "ring") == pytest.approx(seconds(crossover, "tree"))
    assert seconds(crossover / 2, "tree") < seconds(crossover / 2, "ring")
    assert seconds(crossover * 2, "tree") > seconds(crossover * 2, "ring")


def test_with_two_or_three_ranks_the_tree_never_wins():
    assert [traffic.tree_ring_crossover_bytes(n, ALPHA, BETA) for n in (1, 2, 3)] == [0, 0, 0]


def test_a_fit_finds_the_link_that_made_the_samples():
    samples = [(6, size, 6 * ALPHA + size * BETA) for size in (1e3, 1e4, 1e6, 1e8)]
    assert traffic.fit_alpha_beta(samples) == pytest.approx((ALPHA, BETA))


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_a_fit_of_an_all_reduce_finds_its_link_and_its_range(algorithm):
    link = {"alpha": ALPHA, "beta": BETA}
    points = [(size, traffic.all_reduce_seconds(4, size, **link, algorithm=algorithm)) for size in (1e3, 1e5, 1e7)]
    samples = traffic.all_reduce_samples(4, points, algorithm)
    fitted = traffic.fit_alpha_beta(samples)
    assert fitted == pytest.approx((ALPHA, BETA)) and traffic.range_to_expect(fitted, samples) == pytest.approx((1, 1))
    slow = [(messages, num_bytes, 3 * seconds) for messages, num_bytes, seconds in samples]
    assert traffic.range_to_expect(fitted, [*samples, *slow]) == pytest.approx((1, 3))


def test_samples_of_the_page():
    assert traffic.all_reduce_samples(2, [(1e6, 3e-3), (3e6, 5e-3)]) == [(2, 1e6, 3e-3), (2, 3e6, 5e-3)]
    link = traffic.fit_alpha_beta([(2, 1e6, 3e-3), (2, 3e6, 5e-3)])
    assert link == pytest.approx((1e-3, 1e-9))  # 1 ms for each message, 1 ms for each megabyte


def test_a_fit_is_never_negative():
    falling = [(6, 1e3, 2e-3), (6, 1e6, 1e-3)]
    assert traffic.fit_alpha_beta(falling).beta == 0
    superlinear = [(6, 1e3, 1e-9), (6, 1e6, 1e-2)]
    assert traffic.fit_alpha_beta(superlinear).alpha == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: traffic.ring_all_reduce_bytes(0, 1), "use 1 or more"),
        (lambda: traffic.ring_all_reduce_bytes(2, -1), "0 or more"),
        (lambda: traffic.ring_sent_elements(8, 4, 4), "from 0 to 3"),
        (lambda: traffic.all_reduce_seconds(4, 1, alpha=1, beta=1, algorithm="star"), "'ring', 'tree' or 'naive'"),
        (lambda: traffic.all_reduce_seconds(4, 1, alpha=-1, beta=1), "must not be negative"),
        (lambda: traffic.tree_ring_crossover_bytes(4, 1e-6, 0), "beta > 0"),
        (lambda: traffic.fit_alpha_beta([(6, 1e3, 1e-3)]), "at least 2"),
        (lambda: traffic.fit_alpha_beta([(6, 1e3, 1e-3)] * 3), "a short and a long"),
        (lambda: traffic.fit_alpha_beta([(6, 1e3, 1e-3), (6, 1e6, 0)]), "seconds > 0"),
    ],
)
def test_a_wrong_size_is_answered_with_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_costs_import_no_torch():
    code = "import sys, shardlab.costs.traffic; print('torch' in sys.modules or 'numpy' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert answer.stdout.strip() == "False"
