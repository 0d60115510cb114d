"""Exchanges: bytes match the formula, errors are raised on every rank, overlap, and placement of experts."""

import time
from random import Random

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import exchange_bytes, split_expert_bytes, two_level_bytes
from shardlab.expert_parallel import Nodes, ParallelMoE, SlowLink, Splits, Travel, all_to_all, overlapped, placed
from shardlab.model.experts import by_loop
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.permutation import Capacity
from shardlab.model.router import Choice

CONFIG = MoEConfig(8, 8, Choice(8, 2))


def spread(config=CONFIG, **splits):
    torch.manual_seed(0)
    whole = MoE(config)
    for one in whole.parameters():
        torch.nn.init.normal_(one, std=0.3)
    return ParallelMoE(whole, Splits(**{"group": dist.group.WORLD, **splits}))


def own_batch(num_tokens, seed=0):
    return torch.randn(num_tokens, 8, generator=torch.Generator().manual_seed(seed + dist.get_rank())).requires_grad_()


def exchanges_of_rows(bill):
    """The all-to-alls, except those that send counts of rows."""
    return [event for event in bill.events if event.kind == "all_to_all" and event.dtype != "int64"]


# ---- messages -------------------------------------------------------------------------------------------------------


def uneven_exchange():
    """Rank r sends r + s rows to rank s and none to itself. Each row holds its sender; its gradient, the receiver."""
    rank, size = dist.get_rank(), dist.get_world_size()
    sent = [0 if other == rank else rank + other for other in range(size)]
    x = torch.full((sum(sent), 2), float(rank), requires_grad=True)
    y = all_to_all(x, sent, sent, group=None)  # as many arrive as leave
    (y * (rank + 1)).sum().backward()
    arrived = [y[:, 0].tolist().count(other) for other in range(size)]
    returned = [x.grad[:, 1].tolist().count(other + 1) for other in range(size)]
    return arrived == sent and returned == sent and y.requires_grad


def test_rows_arrive_in_uneven_numbers_and_gradients_go_back():
    assert all(shardlab.run(uneven_exchange, ranks=3, timeout=60))


def refused(wrong):
    rank = dist.get_rank()
    sent = [2, 1] if rank == 0 else [1, 2]
    received = [2, 1] if rank == 0 else [1, 2]
    x = torch.zeros(3, 2)
    if wrong == "other counts" and rank == 1:
        received = [2, 2]
    if wrong == "too few rows" and rank == 1:
        x = torch.zeros(2, 2)
    if wrong == "a count short" and rank == 1:
        sent = [3]
    if wrong == "negative" and rank == 1:
        sent = [4, -1]
    with meter.record() as bill:
        try:
            all_to_all(x, sent, received, group=None)
        except ValueError as error:
            return str(error), bill.count("all_to_all")
    return None


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("other counts", "rank 0 sends 1 rows to rank 1, which expects 2: exchange the counts first"),
        ("too few rows", "rank 1 sends [1, 2] of 2 rows: give counts of 0 or more that add up to its rows"),
        ("a count short", "rank 1 has 1 and 2 counts for 2 ranks: give one per rank"),
        ("negative", "rank 1 sends [4, -1] of 3 rows: give counts of 0 or more that add up to its rows"),
    ],
)
def test_counts_that_disagree_are_refused_everywhere_before_sending(wrong, sentence):
    assert shardlab.run(refused, wrong, ranks=2, timeout=60) == [(sentence, 0)] * 2


# ---- bytes ----------------------------------------------------------------------------------------------------------


def bytes_of_a_step(num_tokens):
    layer, x = spread(), own_batch(num_tokens)
    with meter.record() as bill:
        layer(x).sum().backward()
    return [event.payload_bytes for event in exchanges_of_rows(bill)], bill.kinds


@pytest.mark.parametrize("ranks", [2, 4])
def test_four_all_to_alls_of_Tk_rows_leave_and_come_home(ranks):
    """Dispatch sends T*k*h. Combine returns what arrived: over all ranks the same amount. Backward: the reverse."""
    by_rank = shardlab.run(bytes_of_a_step, 6, ranks=ranks, timeout=60)
    due = 6 * 2 * 8 * 4
    for payloads, kinds in by_rank:
        assert kinds == ["all_to_all"] * 5
        dispatch, combine, combine_backward, dispatch_backward = payloads
        assert dispatch == combine_backward == due and combine == dispatch_backward
    assert sum(payloads[1] for payloads, _ in by_rank) == ranks * due


def bytes_across(num_tokens, two_level):
    pairs = [[0, 2], [1, 3]], [[0, 1], [2, 3]]
    nodes = Nodes(*(dist.new_subgroups_by_enumeration(lists)[0] for lists in pairs))
    config = MoEConfig(8, 8, Choice(8, 4, groups=2, groups_per_token=1))
    layer, x = spread(config, nodes=nodes if two_level else None), own_batch(num_tokens)
    with meter.record() as bill, torch.no_grad():
        layer(x)
    rank, size = dist.get_rank(), 2 if two_level else 4
    exchanges = [e for e in exchanges_of_rows(bill) if len(e.members) == size and rank ^ 2 in e.members]
    experts = layer.router(x)[0].experts_TK
    return [event.payload_bytes for event in exchanges], (experts[:, 0] // 4).tolist()


def test_in_two_levels_a_token_crosses_once_for_each_node():
    """Routing to one of two nodes: k = 4 copies become 1, with its 4 weights and 4 expert indices."""
    one = shardlab.run(bytes_across, 6, False, ranks=4, timeout=60)
    two = shardlab.run(bytes_across, 6, True, ranks=4, timeout=60)
    for (once, nodes), (twice, same_nodes) in zip(one, two, strict=True):
        assert nodes == same_nodes
        assert once[0] == 6 * 4 * 8 * 4
        assert sorted(twice[:3]) == sorted([6 * 8 * 4, 6 * 4 * 4, 6 * 4 * 4])


def across_nodes(num_tokens, k, two_level):
    """Bytes that leave this rank's node, forward and backward, and the seconds for which they occupied a link."""
    pairs = [[0, 2], [1, 3]], [[0, 1], [2, 3]]
    nodes = Nodes(*(dist.new_subgroups_by_enumeration(lists)[0] for lists in pairs))
    config = MoEConfig(8, 8, Choice(8, k, groups=2, groups_per_token=1))
    link = SlowLink(ranks_per_node=2, bytes_per_second=1e6)
    layer, x = spread(config, nodes=nodes if two_level else None, travel=Travel(link)), own_batch(num_tokens)
    began = time.monotonic()
    y = layer(x)
    forward = link.sent_bytes
    y.sum().backward()
    leaves = (layer.router(x)[0].experts_TK[:, 0] // 4 != dist.get_rank() // 2).sum().item()
    return forward, link.sent_bytes, leaves, time.monotonic() - began


@pytest.mark.parametrize("k", [2, 4])
def test_two_levels_send_what_the_formula_says_across_nodes(k):
    """Each token goes to one node. Out: a copy, k weights and expert indices. Back: a row. Backward: the reverse."""
    by_rank = shardlab.run(across_nodes, 40, k, True, ranks=4, timeout=60)
    for rank, (forward, both, leaves, seconds) in enumerate(by_rank):
        comes = by_rank[rank ^ 2][2]
        assert forward == two_level_bytes(leaves, k, 8, 1, 4) + exchange_bytes(comes, 1, 8, 4)
        back = two_level_bytes(comes, k, 8, 1, 4) - comes * k * 4 + exchange_bytes(leaves, 1, 8, 4)
        assert both == forward + back  # expert indices have no gradient
        assert seconds > both / 1e6 / 2  # both directions at the same time


def test_one_level_sends_k_rows_across_nodes():
    """Over all ranks, the same amount comes back as went out, and the backward sends the same again."""
    by_rank = shardlab.run(across_nodes, 40, 4, False, ranks=4, timeout=60)
    out = sum(exchange_bytes(leaves, 4, 8, 4) for _, _, leaves, _ in by_rank)
    assert sum(one[0] for one in by_rank) == 2 * out and sum(one[1] for one in by_rank) == 4 * out


def test_a_link_that_carries_nothing_is_refused():
    for wrong in ({"ranks_per_node": 0, "bytes_per_second": 1}, {"ranks_per_node": 2, "bytes_per_second": 0}):
        with pytest.raises(ValueError, match="use more than 0"):
            SlowLink(**wrong)


def bytes_of_shared_experts(ep, k, num_tokens):
    """Bytes that each rank sends in a forward, and how many of a token's k rows its expert-parallel ranks received."""
    size = dist.get_world_size()
    tensor = [list(range(first, first + size // ep)) for first in range(0, size, size // ep)]
    expert = [list(ranks) for ranks in zip(*tensor, strict=True)]
    groups = [dist.new_subgroups_by_enumeration(lists)[0] for lists in (expert, tensor)]
    layer, x = spread(MoEConfig(8, 8, Choice(8, k)), group=groups[0], tensor=groups[1]), own_batch(num_tokens)
    layer.router.get_buffer("bias_E")[torch.arange(8) % (8 // ep) < k // ep] = 100.0  # k/ep experts of every rank
    with meter.record() as bill, torch.no_grad():
        layer(x)
    return sum(event.sent_bytes for event in exchanges_of_rows(bill)), layer.gathers_tokens


@pytest.mark.parametrize(
    ("ranks", "ep", "k", "tokens_travel"),
    [(2, 1, 1, False), (2, 1, 2, True), (4, 1, 4, True), (4, 2, 4, True), (4, 2, 2, False)],
)
def test_ranks_that_share_experts_send_what_the_formula_says(ranks, ep, k, tokens_travel):
    """Tokens are gathered once, instead of their k copies, if that sends less."""
    due = split_expert_bytes(6, k, 8, ep=ep, etp=ranks // ep, bytes_each=4)
    found = shardlab.run(bytes_of_shared_experts, ep, k, 6, ranks=ranks, timeout=60)
    assert found == [(due, tokens_travel)] * ranks


# ---- trouble --------------------------------------------------------------------------------------------------------


def trouble(what):
    rank = dist.get_rank()
    try:
        if what == "experts":
            return spread(MoEConfig(8, 8, Choice(9, 2)))
        layer = spread(MoEConfig(8, 8 if what != "layers" or rank == 0 else 16, Choice(8, 2)))
        x = own_batch(4)
        if rank == 1:
            x = {
                "nan": lambda: x.detach() * torch.nan,
                "dtype": x.double,
                "width": lambda: torch.zeros(4, 6),
                "gradient": x.detach,
            }.get(what, lambda: x)()
        with meter.record() as bill:
            layer(x)
    except ValueError as error:
        return str(error), 0 if what in ("experts", "layers") else len(exchanges_of_rows(bill))
    return None


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("experts", "9 experts cannot be split over 2 ranks: use an expert-parallel size among [1, 3, 9]"),
        ("layers", "rank 1 has a different layer from rank 0: experts.up [8, 8, 16]"),
        ("nan", "rank 1: the router's scores of token 0 are not finite"),
        ("dtype", "rank 1: the input has width 8 and torch.float64, but the experts have 8 and torch.float32"),
        ("width", "rank 1: the input has width 6 and torch.float32, but the experts have 8"),
        ("gradient", "the input of rank 1 has none, but the input of rank 0 has a gradient"),
    ],
)
def test_trouble_of_one_rank_is_a_sentence_on_all_before_a_row_is_sent(what, sentence):
    for text, sent in shardlab.run(trouble, what, ranks=2, timeout=60):
        assert text.startswith(sentence) and sent == 0


def trouble_among_partners(k, what):
    """Two ranks share every expert's matrices. Trouble on one stops its partner and its expert-parallel ranks."""
    groups = [dist.new_subgroups_by_enumeration(lists)[0] for lists in ([[0, 1], [2, 3]], [[0, 2], [1, 3]])]
    capacity = Capacity(0.5) if what == "capacity" else None
    layer = spread(MoEConfig(8, 8, Choice(8, k), capacity=capacity), group=groups[0], tensor=groups[1])
    x = own_batch(20)
    if dist.get_rank() == 3:
        x = x * torch.nan if what == "nan" else x[:1]
    try:
        layer(x)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("k", [2, 3], ids=["rows", "tokens"])
@pytest.mark.parametrize(
    ("what", "sentence"), [("nan", "scores of token 0 are not finite"), ("capacity", "use a factor of")]
)
def test_trouble_reaches_the_ranks_that_share_an_experts_matrices(k, what, sentence):
    assert all(sentence in text for text in shardlab.run(trouble_among_partners, k, what, ranks=4, timeout=60))


# ---- overlap --------------------------------------------------------------------------------------------------------

SPANS = []


def slow(x, *others):
    began = time.monotonic()
    y = by_loop(x, *others)
    time.sleep(0.02)
    SPANS.append((began, time.monotonic()))
    return _Slow.apply(y)


class _Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y.view_as(y)

    @staticmethod
    def backward(ctx, *gradients):
        began = time.monotonic()
        time.sleep(0.02)
        SPANS.append((began, time.monotonic()))
        return gradients[0]


def two_microbatches(together):
    """Which of eight exchanges were in flight throughout some experts' work, and the layer's gradients."""
    layer = spread()
    layer.experts.method = slow
    a, b = own_batch(6), own_batch(9, seed=50)
    SPANS.clear()
    with meter.record() as bill:
        y_a, y_b = overlapped(layer, a, b) if together else (layer(a), layer(b))
        (y_a.square().sum() + y_b.square().sum()).backward()
    exchanges = exchanges_of_rows(bill)
    assert all(event.waits is not None for event in exchanges)
    behind = [any(e.begin <= began and e.waits >= ended for began, ended in SPANS) for e in exchanges]
    return behind, load(layer), [a.grad, b.grad, *(one.grad for one in layer.parameters())]


def load(layer):
    return layer.load_E.sum().item()


def test_exchanges_hide_behind_the_other_microbatchs_experts():
    apart = shardlab.run(two_microbatches, False, ranks=2, timeout=60)
    together = shardlab.run(two_microbatches, True, ranks=2, timeout=60)
    for (none, _, due), (behind, num_choices, got) in zip(apart, together, strict=True):
        assert sum(none) == 0 and len(none) == 8
        assert behind == [False, True, True, False, False, True, True, False]
        assert num_choices == 2 * (6 + 9)
        for one, other in zip(got, due, strict=True):
            torch.testing.assert_close(one, other)


# ---- placement ------------------------------------------------------------------------------------------------------


def test_the_example_of_eplbs_page_comes_out():
    """From github.com/deepseek-ai/EPLB: 12 experts in 4 groups, 16 places on 2 nodes with 4 GPUs each, two layers."""
    layers = [
        [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
        [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
    ]
    sizes = {"num_places": 16, "num_groups": 4, "num_nodes": 2, "num_gpus": 8}
    assert [placed(loads, **sizes).experts for loads in layers] == [
        [5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
        [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1],
    ]


def test_copies_share_what_is_hot():
    """Zipf's law over 256 experts on 32 GPUs: 5.38 times the mean; with 32 extra copies 1.31, with 64 1.20.

    Balanced if a copy may be on any node.
    """
    loads = [1 / (place + 1) for place in range(256)]
    Random(0).shuffle(loads)
    sizes = {"num_groups": 8, "num_nodes": 4, "num_gpus": 32}
    found = [placed(loads, num_places=256 + extra, **sizes).imbalance(loads) for extra in (0, 32, 64)]
    assert [round(one, 2) for one in found] == [5.38, 1.31, 1.2]
    anywhere = placed(loads, num_places=288, num_groups=1, num_nodes=1, num_gpus=32)
    assert round(anywhere.imbalance(loads), 2) == 1


def test_tokens_take_an_experts_copies_in_turn():
    placement = placed([9.0, 1.0, 1.0, 1.0], num_places=6, num_groups=1, num_nodes=1, num_gpus=2)
    experts_TK = torch.tensor([[0, 1]] * 9)
    places_TK = placement.places_of(experts_TK)
    at = torch.tensor(placement.experts)
    assert torch.equal(at[places_TK], experts_TK)
    counts = torch.bincount(places_TK[:, 0], minlength=6)[at == 0]
    assert len(counts) == 3 and counts.max() - counts.min() == 0


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((16, 5, 1, 8), "12 experts cannot be split over 5 groups: use 10 experts"),
        ((15, 4, 2, 8), "15 places cannot be split over 8 GPUs: use 8 places"),
        ((8, 4, 2, 8), "8 places cannot hold 12 experts: use 12 or more"),
        ((16, 4, 4, 6), "6 GPUs cannot be split over 4 nodes: use 4 GPUs"),
    ],
)
def test_places_that_do_not_fit_are_refused(sizes, sentence):
    with pytest.raises(ValueError) as refused:
        placed([1.0] * 12, **dict(zip(("num_places", "num_groups", "num_nodes", "num_gpus"), sizes, strict=True)))
    assert sentence in str(refused.value)
