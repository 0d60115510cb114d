"""Split layers on real ranks compared with whole layers: outputs, gradients, frozen weights, and refusals."""

import time
from copy import deepcopy

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def inputs(*shape):
    generator = torch.Generator().manual_seed(5)
    return torch.randn(shape or (2, 6, 24), dtype=torch.float64, generator=generator)


def whole_layers():
    torch.manual_seed(1)
    layers = [nn.Linear(24, 48).double(), nn.Linear(48, 24).double()]
    for layer in layers:
        nn.init.normal_(layer.bias)  # so that a bias added twice is detected
    return layers


def column_and_row(x, *, skip, sequence_dim, dtype=torch.float64):
    column, row = (layer.to(dtype) for layer in whole_layers())
    up = ColumnParallelLinear(column, group=None, skip_bias_add=skip, sequence_dim=sequence_dim)
    down = RowParallelLinear(row, group=None, skip_bias_add=skip, sequence_dim=sequence_dim)
    hidden = up(x) + (up.bias if skip else 0)
    y = down(functional.gelu(hidden))
    return (up, down), y + (down.bias if skip else 0)


def against_whole_layers(skip, sequence_dim):
    """Outputs and gradients of a column and a row layer, with a sequence_dim for this rank's part of the sequence."""
    rank, size = dist.get_rank(), dist.get_world_size()
    (column, row), x = whole_layers(), inputs().requires_grad_()
    due = row(functional.gelu(column(x)))
    due.square().sum().backward()

    def mine(tensor):
        return tensor if sequence_dim is None else tensor.chunk(size, sequence_dim)[rank].clone()

    own = mine(inputs()).requires_grad_()
    (up, down), got = column_and_row(own, skip=skip, sequence_dim=sequence_dim)
    got.square().sum().backward()
    torch.testing.assert_close(got, mine(due), **CLOSE)
    torch.testing.assert_close(own.grad, mine(x.grad), **CLOSE)
    for part, whole, dim in ((up.weight, column.weight, 0), (up.bias, column.bias, 0), (down.weight, row.weight, 1)):
        torch.testing.assert_close(part.grad, whole.grad.chunk(size, dim)[rank], **CLOSE)
    bias = down.bias.grad.clone()
    if sequence_dim is not None:
        dist.all_reduce(bias)  # partial: this rank saw only a part of the tokens
    torch.testing.assert_close(bias, row.bias.grad, **CLOSE)
    return down.partial if sequence_dim is not None else ()


@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
@pytest.mark.parametrize("skip", [False, True], ids=["", "skipped bias"])
@pytest.mark.parametrize("sequence_dim", [None, 1])
def test_a_column_and_a_row_layer_are_the_whole_ones(ranks, skip, sequence_dim):
    due = () if sequence_dim is None else ("bias",)
    assert shardlab.run(against_whole_layers, skip, sequence_dim, ranks=ranks, timeout=60) == [due] * ranks


def gathered_and_given_whole():
    """A column layer with two sections that gathers, and a row layer that takes its part of the whole input."""
    (column, row), x = whole_layers(), inputs().requires_grad_()
    due = row(column(x))
    due.square().sum().backward()
    up = ColumnParallelLinear(whole_layers()[0], group=None, cut=Cut((36, 12)), gather_output=True)
    down = RowParallelLinear(whole_layers()[1], group=None, input_is_parallel=False)
    mine = inputs().requires_grad_()
    got = down(up(mine))
    got.square().sum().backward()
    torch.testing.assert_close(got, due, **CLOSE)
    torch.testing.assert_close(mine.grad, x.grad, **CLOSE)
    cut = Cut((36, 12)).part(column.weight.grad, dist.get_rank(), dist.get_world_size())
    torch.testing.assert_close(up.weight.grad, cut, **CLOSE)
    return True


def test_outputs_are_gathered_in_order_and_whole_inputs_are_split():
    assert all(shardlab.run(gathered_and_given_whole, ranks=3, timeout=60))


def against_torchs_own():
    column, row = whole_layers()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = nn.Sequential(column, nn.GELU(), row)
    theirs = parallelize_module(deepcopy(whole), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    ours, their_x = inputs().requires_grad_(), inputs().requires_grad_()
    (up, down), output = column_and_row(ours, skip=False, sequence_dim=None)
    their_output = theirs(their_x)
    for one in (output, their_output):
        one.square().sum().backward()
    torch.testing.assert_close(output, their_output, **CLOSE)
    torch.testing.assert_close(ours.grad, their_x.grad, **CLOSE)
    mine = [up.weight, up.bias, down.weight, down.bias]
    for one, other in zip(mine, theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad.to_local(), **CLOSE)
    return len(mine)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_cut_mlp_is_that_of_torchs_parallelize_module(ranks):
    assert shardlab.run(against_torchs_own, ranks=ranks, timeout=60) == [4] * ranks


def frozen(which):
    column, row = whole_layers()
    for layer in (column, row):
        getattr(layer, which).requires_grad_(False)
    up, down = ColumnParallelLinear(column, group=None, sequence_dim=1), RowParallelLinear(row, group=None)
    x = inputs().chunk(2, 1)[dist.get_rank()].clone().requires_grad_()
    with meter.record() as bill:
        down(up(x)).sum().backward()
    grads = [name for name, p in (*up.named_parameters(), *down.named_parameters()) if p.grad is not None]
    return grads, bill.kinds, x.grad is not None


def test_frozen_weights_stay_frozen_and_are_not_gathered_for():
    """all-gather, all-reduce. The backward gathers the input again only if a weight gradient needs it."""
    for grads, kinds, has_input in shardlab.run(frozen, "weight", ranks=2, timeout=30):
        assert grads == ["bias", "bias"] and has_input
        assert kinds == ["all_gather", "all_reduce", "reduce_scatter"]
    for grads, kinds, _ in shardlab.run(frozen, "bias", ranks=2, timeout=30):
        assert grads == ["weight", "weight"]
        assert kinds == ["all_gather", "all_reduce", "all_gather", "reduce_scatter"]


class Products(TorchDispatchMode):
    """Records when each matrix product began."""

    def __init__(self):
        super().__init__()
        self.began = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.name() == "aten::mm":
            self.began.append(time.monotonic())
        return func(*args, **(kwargs or {}))


def order_of_backward(sequence_dim):
    """The events in a column layer's backward, in order: products, messages started and messages waited for."""
    up = ColumnParallelLinear(whole_layers()[0], group=None, sequence_dim=sequence_dim)
    y = up(inputs().requires_grad_())
    with meter.record() as bill, Products() as products:
        y.sum().backward()
    order = [(at, "product") for at in products.began]
    order += [(event.begin, event.kind) for event in bill.events]
    order += [(event.waits, f"wait for {event.kind}") for event in bill.events]
    return [what for _, what in sorted(order)]


def test_messages_travel_while_products_are_computed():
    summed = ["product", "all_reduce", "product", "wait for all_reduce"]
    assert shardlab.run(order_of_backward, None, ranks=2, timeout=60) == [summed] * 2
    gathered = ["all_gather", "product", "reduce_scatter", "wait for all_gather", "product", "wait for reduce_scatter"]
    assert shardlab.run(order_of_backward, 1, ranks=2, timeout=60) == [gathered] * 2


def drawn():
    torch.manual_seed(2)
    layer = ColumnParallelLinear(nn.Linear(8, 24), group=None)
    parts = [torch.empty_like(layer.weight) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, layer.weight.detach())
    return torch.cat(parts)


def test_what_is_drawn_does_not_depend_on_the_number_of_ranks():
    wholes = [shardlab.run(drawn, ranks=ranks, timeout=30)[0] for ranks in (1, 2, 4)]
    assert torch.equal(wholes[0], wholes[1]) and torch.equal(wholes[0], wholes[2])


def refusals():
    told = []
    column = ColumnParallelLinear(nn.Linear(4, 6), group=None, sequence_dim=1)
    row = RowParallelLinear(nn.Linear(6, 4), group=None, sequence_dim=1)
    with meter.record() as bill:
        for make in (
            lambda: ColumnParallelLinear(nn.Linear(4, 10), group=None),
            lambda: RowParallelLinear(nn.Linear(10, 4), group=None),
            lambda: column(torch.zeros(1, 2, 4, dtype=torch.float64)),
            lambda: column(torch.zeros(1, 2, 5)),
            lambda: row(torch.zeros(1, 5, 2)),
            lambda: row(torch.zeros(1, 2, 2)),
        ):
            with pytest.raises(ValueError, match=r"use|convert") as caught:
                make()
            told.append(str(caught.value))
    return told, bill.kinds


def test_what_does_not_fit_is_refused_everywhere_before_sending():
    (told, kinds), *others = shardlab.run(refusals, ranks=3, timeout=30)
    assert kinds == [] and all(other == (told, kinds) for other in others)
    assert told == [
        "10 cannot be split over 3 ranks: use a tensor-parallel size among [1, 2, 5, 10]",
        "10 cannot be split over 3 ranks: use a tensor-parallel size among [1, 2, 5, 10]",
        "the input is torch.float64, but the weight is torch.float32: convert one, x.to(torch.float32)",
        "the input has width 5, but the weight takes 4: use that width",
        "a sequence of 5 cannot be split over 3 ranks: use 3 or 6, or a tensor-parallel size among [1, 5]",
        "a sequence of 2 cannot be split over 3 ranks: use 3, or a tensor-parallel size among [1, 2]",
    ]


def keeps_the_whole_alive():
    part = RowParallelLinear(nn.Linear(64, 64), group=None)
    return part.weight.untyped_storage().nbytes() // part.weight.element_size()


def test_a_part_is_no_view_of_the_whole():
    assert shardlab.run(keeps_the_whole_alive, ranks=2, timeout=30) == [64 * 32] * 2
