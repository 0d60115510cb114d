"""Optimizers that need matrices: whole parameters with one owner each match one process. Others are refused."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from shardlab import meter
from shardlab.costs import traffic
from shardlab.costs.memory.states import assign_owners
from shardlab.data_parallel import checkpoint
from shardlab.data_parallel.flat import EqualShards, WholeParameters
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero import Zero1, Zero2
from torch import nn
from torch.optim import LBFGS, SGD, Adafactor, AdamW, Muon, SparseAdam

from tests.shardlab.data_parallel import twin


class LayerWise(torch.optim.Optimizer):
    """A step as long as a layer's own norm, as in LARS: not a torch optimizer, and not elementwise."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(group["lr"] * p.norm() / p.grad.norm() * p.grad)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30), st.integers(1, 9))
def test_no_rank_gets_more_than_an_even_share_and_one_parameter(sizes, num_ranks):
    owners = assign_owners(sizes, num_ranks)
    loads = [sum(size for size, owner in zip(sizes, owners, strict=True) if owner == r) for r in range(num_ranks)]
    assert sum(loads) == sum(sizes)
    assert max(loads) <= sum(sizes) / num_ranks + max(sizes)
    assert all(loads[r] for r in range(min(num_ranks, len(sizes))))


def split_by_shape(model):
    """The matrices, for Muon, which accepts nothing else, and the rest."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return [p for p in trained if p.dim() == 2], [p for p in trained if p.dim() != 2]


def optimizers_of(name, model, build):
    """The optimizers, each made by build(parameters, class, **options)."""
    if name == "Muon":
        matrices, rest = split_by_shape(model)
        return [build(matrices, Muon, lr=0.02, weight_decay=0.1), build(rest, AdamW, lr=0.02)]
    options = {"Adafactor": (Adafactor, {"lr": 0.05}), "LayerWise": (LayerWise, {}), "AdamW": (AdamW, {"lr": 0.05})}
    optimizer_class, more = options[name]
    return [build([p for p in model.parameters() if p.requires_grad], optimizer_class, **more)]


def state_bytes(optimizer):
    return sum(v.nbytes for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor))


def trained_alone(name, num_ranks):
    model = twin.new_model()
    optimizers = optimizers_of(name, model, lambda some, kind, **options: kind(some, **options))
    for step in range(twin.STEPS):
        for optimizer in optimizers:
            optimizer.zero_grad()
        twin.loss_of(model, *twin.batch(step, num_ranks)).backward()
        for optimizer in optimizers:
            optimizer.step()
    by_shape = {p.shape: sum(v.nbytes for v in s.values()) for o in optimizers for p, s in o.state.items()}
    return {n: p.detach() for n, p in model.named_parameters()}, sum(map(state_bytes, optimizers)), by_shape


def train(name, max_norm=None):
    rank, size = dist.get_rank(), dist.get_world_size()
    model = twin.new_model(seed=rank)
    if rank == 0:
        model.load_state_dict(twin.new_model().state_dict())

    def build(some, kind, **options):
        return Zero1(model, kind, parameter_groups=[{"params": some}], layout=WholeParameters, **options)

    optimizers = optimizers_of(name, model, build)
    for step in range(twin.STEPS):
        for optimizer in optimizers:
            optimizer.zero_grad()
        twin.loss_of(model, *(twin.own_part(t, rank, size) for t in twin.batch(step, size))).backward()
        with meter.record() as bill:
            for optimizer in optimizers:
                optimizer.step(max_norm=max_norm)
    own = [master.shape for one in optimizers for vector in one.vectors for master in vector.masters]
    held = sum(optimizer.held().optimizer_state for optimizer in optimizers)
    return {n: p.detach() for n, p in model.named_parameters()}, held, own, bill.sent_bytes


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", ["Muon", "Adafactor", "LayerWise", "AdamW"])
def test_whole_parameters_train_as_one_process_with_one_owner_each(name, ranks):
    alone, all_bytes, by_shape = trained_alone(name, ranks)
    by_rank = shardlab.run(train, name, ranks=ranks, timeout=60)
    for weights, held, own, sent in by_rank:
        # Muon's Newton-Schulz runs in bfloat16, so a different order of sums changes the last bit of a step
        assert twin.largest_difference(weights, alone) < (2e-3 if name == "Muon" else 1e-9)
        assert held == sum(by_shape.get(shape, 0) for shape in own)
        numbers = sum(p.numel() for p in twin.new_model().parameters() if p.requires_grad)
        assert sent == pytest.approx(traffic.zero_bytes(ranks, 8 * numbers, 1), abs=1e-6)
    assert sum(held for _, held, _, _ in by_rank) == all_bytes
    assert all(own for _, _, own, _ in by_rank)


def clipped(layout):
    model = twin.new_model()
    zero = Zero1(model, SGD, lr=0.5, layout=layout) if layout else Zero1(model, SGD, lr=0.5)
    for step in range(3):
        zero.zero_grad()
        twin.loss_of(model, *twin.batch(step, 1)).backward()
        zero.step(max_norm=0.01)
    return {n: p.detach() for n, p in model.named_parameters()}


def test_clipping_is_by_the_norm_of_all_owners():
    due = shardlab.run(clipped, None, ranks=1)[0]
    for weights in shardlab.run(clipped, WholeParameters, ranks=3):
        assert twin.largest_difference(weights, due) < 1e-12


def more_ranks_than_parameters(poisoned):
    model = nn.Linear(3, 2, bias=False)
    nn.init.ones_(model.weight)
    zero = Zero1(model, Adafactor, lr=0.1, layout=WholeParameters, master_dtype=torch.float64)
    loss = model(torch.ones(1, 3)).sum() * (float("nan") if poisoned and dist.get_rank() == 3 else 1.0)
    loss.backward()
    try:
        zero.step(max_norm=1.0)
    except ValueError as error:
        return str(error), zero.held().optimizer_state
    return model.weight.detach().tolist(), zero.held().optimizer_state


def test_who_owns_nothing_keeps_nothing_and_hears_the_alarm():
    (first, owners), *others = shardlab.run(more_ranks_than_parameters, False, ranks=4, timeout=30)
    assert first[0][0] < 1 and owners > 6 * 8
    assert all(weights == first and held == 8 for weights, held in others)  # the master of the padding
    for sentence, _ in shardlab.run(more_ranks_than_parameters, True, ranks=4, timeout=30):
        assert "rank 3: the gradient of weight is infinite or not a number" in sentence


def sharded_alone(layout):
    """Only the optimizer, with the same gradients on every rank, groups and a closure."""
    model = twin.new_model()
    frozen, rest = list(model.blocks[0].parameters()), [*model.blocks[2].parameters(), model.embed.weight]
    groups = [{"params": frozen, "lr": 0.0}, {"params": rest}]
    optimizer = ShardedOptimizer(groups, AdamW, lr=0.1, weight_decay=0.0, layout=layout)

    def closure():
        optimizer.zero_grad()
        loss = twin.loss_of(model, *twin.batch(0, 2))
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]
    return losses, {name: parameter.detach() for name, parameter in model.named_parameters()}


def test_groups_and_closures_work_in_both_layouts():
    start = {name: parameter.detach() for name, parameter in twin.new_model().named_parameters()}
    flat, whole = (shardlab.run(sharded_alone, layout, ranks=3) for layout in (EqualShards, WholeParameters))
    for losses, weights in (*flat, *whole):
        assert losses == pytest.approx(flat[0][0], abs=1e-12) and losses[2] < losses[0]
        assert twin.largest_difference(weights, flat[0][1]) < 1e-12
        moved = [name for name in start if not torch.equal(start[name], weights[name])]
        assert moved and not any(name.startswith("blocks.0") for name in moved)


def refusal(engine, kind, options, layout):
    model = twin.new_model()
    given = model if engine is not ShardedOptimizer else model.parameters()
    options = options | ({"layout": layout} if layout else {})
    try:
        engine(given, kind, **options)
    except ValueError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize(
    ("engine", "kind", "options", "layout", "words"),
    [
        (ShardedOptimizer, Adafactor, {}, None, "layout=WholeParameters"),
        (Zero2, Adafactor, {}, None, "layout=WholeParameters"),
        (Zero1, Muon, {}, None, "layout=WholeParameters"),
        (Zero1, LayerWise, {}, None, "LayerWise is not elementwise"),
        (Zero1, LBFGS, {}, WholeParameters, "LBFGS searches along one line"),
        (ShardedOptimizer, LBFGS, {}, None, "LBFGS searches along one line"),
        (ShardedOptimizer, SparseAdam, {}, WholeParameters, "sparse gradients"),
        (Zero1, Muon, {}, WholeParameters, "2D parameters"),  # torch's error for a bias that only one rank owns
        (Zero2, AdamW, {}, WholeParameters, "only Zero1"),
        (Zero1, AdamW, {"lr": -1.0}, None, "Invalid learning rate"),
    ],
)
def test_what_does_not_suit_is_refused_on_every_rank(engine, kind, options, layout, words):
    for sentence in shardlab.run(refusal, engine, kind, options, layout, ranks=3, timeout=30):
        assert words in sentence


def save_whole(folder):
    zero = Zero1(twin.new_model(), AdamW, layout=WholeParameters)
    with pytest.raises(ValueError, match="WholeParameters has no vectors to save"):
        checkpoint.save(zero, folder, step=1)


def test_a_checkpoint_of_vectors_says_that_it_has_none(tmp_path):
    shardlab.run(save_whole, str(tmp_path), ranks=2)
