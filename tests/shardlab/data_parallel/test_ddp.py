"""DDP, hybrid sharding, and low precision."""

import re

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import traffic
from shardlab.costs.memory.states import zero_state_bytes
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from torch import nn

from tests.shardlab.data_parallel import twin

# ---- DDP: what is sent when, ranks that leave a parameter unused, and models that cannot be wrapped. -----------------

EACH_ALONE = {"bucket_bytes": 1, "first_bucket_bytes": 1}  # one bucket per parameter


def order_of_events():
    """Layer names in the order their gradients are computed, and "all_reduce" when each call starts."""
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4)))
    wrapped = DataParallel(model, **EACH_ALONE)
    with meter.record() as bill:
        seen = []
        for number, layer in enumerate(model):
            layer.weight.register_hook(lambda _, number=number: seen.append((number, len(bill.events))))
        wrapped(torch.ones(2, 64)).sum().backward()
    return seen, bill.kinds


def test_the_first_bucket_leaves_while_the_backward_goes_on():
    for seen, kinds in shardlab.run(order_of_events, ranks=2):
        assert seen == [(3, 0), (2, 1), (1, 2), (0, 3)]  # layer 3's gradient is sent before layer 2's is computed
        assert kinds == ["all_reduce"] * 4


def microbatches(num):
    wrapped = DataParallel(twin.new_model(), bucket_bytes=300)
    tokens, targets = (twin.own_part(t, dist.get_rank(), 2) for t in twin.batch(0, 2))
    with meter.record() as bill:
        for number in range(num):
            loss = twin.loss_of(wrapped, tokens[number : number + 1], targets[number : number + 1]) / num
            if number + 1 < num:
                with wrapped.no_sync():
                    loss.backward()
            else:
                loss.backward()
    return {n: p.grad for n, p in wrapped.module.named_parameters() if p.grad is not None}, bill.count("all_reduce")


def test_only_the_last_microbatch_of_a_step_communicates():
    alone = twin.new_model()
    twin.loss_of(alone, *twin.batch(0, 2)).backward()
    due = {name: parameter.grad for name, parameter in alone.named_parameters() if parameter.grad is not None}
    (one, calls), (other, more_calls) = shardlab.run(microbatches, 3, ranks=2)
    assert twin.largest_difference(one, due) < 1e-12
    assert twin.largest_difference(other, due) < 1e-12
    assert calls == more_calls == shardlab.run(microbatches, 1, ranks=2)[0][1]


class Gate(nn.Module):
    """Rank 0 uses `left`, all others `right`; no rank uses `up`."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.up = (nn.Linear(3, 3, bias=False) for _ in range(3))

    def forward(self, x):
        return self.left(x) if dist.get_rank() == 0 else self.right(x)


def one_sided(unused_parameters):
    torch.manual_seed(0)
    model = DataParallel(Gate(), unused_parameters=unused_parameters)
    model(torch.ones(1, 3)).sum().backward()
    return [None if p.grad is None else p.grad[0, 0].item() for p in model.parameters()]


def test_unused_on_one_rank_is_zero_and_on_all_is_none():
    for gradients in shardlab.run(one_sided, True, ranks=3):
        assert gradients == pytest.approx([1 / 3, 2 / 3, None])


def test_an_unused_parameter_is_named_and_nobody_waits():
    with pytest.raises(shardlab.RanksFailed, match=r"rank 0: right\.weight got no gradient.*rank 1: left\.weight"):
        shardlab.run(one_sided, False, ranks=2, timeout=30)


def buffers_and_weights():
    torch.manual_seed(dist.get_rank())
    model = DataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    for step in range(2):
        model(torch.randn(5, 4) + step).sum().backward()
    model.eval()
    return model.state_dict()


def test_weights_and_buffers_are_those_of_the_first_rank():
    first, second = shardlab.run(buffers_and_weights, ranks=2)
    for name in ("module.0.weight", "module.1.num_batches_tracked"):
        assert torch.equal(first[name], second[name])


def refused(case):
    model = nn.Linear(2, 2)
    if case == "differs":
        model = nn.Linear(2, 2 + dist.get_rank())
    if case == "longer":
        model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(1 + dist.get_rank())))
    if case == "frozen":
        model.requires_grad_(False)
    try:
        DataParallel(model)
    except ValueError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("differs", r"rank 1 has a different model from rank 0: weight \[3, 2\]"),
        ("longer", "rank 1 has a different model from rank 0"),
        ("frozen", "no parameter requires a gradient"),
    ],
)
def test_a_model_that_cannot_be_wrapped_is_refused_on_every_rank(case, words):
    for sentence in shardlab.run(refused, case, ranks=2, timeout=30):
        assert re.search(words, sentence), sentence


def finish_twice():
    torch.manual_seed(0)
    model = DataParallel(Gate(), unused_parameters=True)
    model(torch.ones(1, 3)).sum().backward()
    model.finish()
    return [None if p.grad is None else p.grad[0, 0].item() for p in model.parameters()]


def test_finish_does_no_harm_when_called_again():
    for gradients in shardlab.run(finish_twice, ranks=2, timeout=30):
        assert gradients == pytest.approx([1 / 2, 1 / 2, None])


class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("half-way")


def backward_that_raises():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model = DataParallel(layers, bucket_bytes=1 << 20, first_bucket_bytes=1 << 20)
    model.module.forward = lambda x: layers[1](Breaks.apply(layers[0](x)))
    with pytest.raises(RuntimeError, match="half-way"):
        model(torch.ones(1, 3)).sum().backward()
    del model.module.forward
    for parameter in model.parameters():
        parameter.grad = None
    model(torch.full((1, 3), float(dist.get_rank()))).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def test_a_backward_that_raised_leaves_nothing_to_the_next():
    first, second = shardlab.run(backward_that_raises, ranks=2, timeout=30)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


# ---- Slices within a node and replicas across nodes, and weights gathered in bf16 with precise masters. --------------

ENGINES = {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3}


def two_by_two():
    """This rank's node, and the ranks of the other node that hold the same slice."""
    nodes = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    across = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    return nodes[dist.get_rank() // 2], across[dist.get_rank() % 2]


def train_hybrid(stage):
    rank, size = dist.get_rank(), dist.get_world_size()
    node, across = two_by_two()
    model = twin.new_model()
    for parameter in model.parameters():
        parameter.data += rank  # rank 0's weights are used
    units = {"units": list(model.blocks)} if stage == "zero3" else {}
    zero = ENGINES[stage](model, torch.optim.AdamW, group=node, replicas=across, lr=0.05, weight_decay=0.1, **units)
    for step in range(twin.STEPS):
        zero.zero_grad()
        twin.loss_of(model, *(twin.own_part(t, rank, size) for t in twin.batch(step, size))).backward()
        zero.step(max_norm=0.5)
    return zero.full_parameters() if stage == "zero3" else {n: p.detach() for n, p in model.named_parameters()}


@pytest.mark.parametrize("stage", ENGINES)
def test_two_nodes_of_two_ranks_are_one_process(stage):
    alone, _ = twin.trained_alone(4, max_norm=0.5, lr=0.05, weight_decay=0.1)
    for weights in shardlab.run(train_hybrid, stage, ranks=4, timeout=60):
        assert twin.largest_difference(weights, alone) < 1e-12


def hybrid_bytes():
    node, across = two_by_two()
    model = nn.Sequential(nn.Linear(31, 32))  # 1024 parameters
    zero = Zero3(model, torch.optim.SGD, units=list(model), group=node, replicas=across, lr=0.1)
    with meter.record() as bill:
        model(torch.ones(1, 31)).sum().backward()
        zero.step()
    crossing = [event.sent_bytes for event in bill.events if event.kind == "all_reduce"]
    return sum(crossing), bill.sent_bytes - sum(crossing)


def test_only_slices_of_gradients_cross_nodes():
    for crossing, within in shardlab.run(hybrid_bytes, ranks=4):
        assert crossing == traffic.ring_all_reduce_bytes(2, 4 * 1024 / 2)
        assert within == traffic.zero_bytes(2, 4 * 1024, 3)


def low_precision():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(31, 32))
    bias = model[0].bias.detach().clone()  # the vector starts with the last parameter
    zero = Zero3(
        model, torch.optim.AdamW, units=list(model), compute_dtype=torch.bfloat16, gradient_dtype=torch.float32, lr=1e-6
    )
    master = zero.vectors[0].master.detach().clone()
    for _ in range(2):
        zero.zero_grad()
        with meter.record() as bill:
            model(torch.ones(1, 31, dtype=torch.bfloat16)).sum().backward()
            gradients = zero.held().gradients
            zero.step()
    held = zero.held()
    moved = (zero.vectors[0].master.detach() - master).abs().max().item()
    return (
        torch.equal(bias[:16], master[:16]),
        moved,
        bill.sent_bytes,
        (held.parameters, gradients, held.optimizer_state),
    )


def test_masters_keep_the_precision_that_the_passes_give_up():
    (is_precise, *_), _ = by_rank = shardlab.run(low_precision, ranks=2)
    assert is_precise
    for _, moved, sent, held in by_rank:
        assert moved == pytest.approx(2e-6, rel=0.1)  # a step too small for bf16 to add to a weight
        assert sent == traffic.zero_bytes(2, 2 * 1024, 3)
        due = zero_state_bytes(1024, 2, 3, gradient_bytes=4)
        assert held == (due.parameters, due.gradients, due.optimizer + 4)
