"""Megatron-LM's own unit tests, rewritten, for our operators behind a thin adapter with its names.

Source: NVIDIA/Megatron-LM, tests/unit_tests/tensor_parallel: test_mappings, test_layers, test_initialization,
test_cross_entropy. As there, eight ranks are two groups of four; megatron-core itself is not needed.
"""

from dataclasses import dataclass

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import tensor_parallel as tp
from shardlab.tensor_parallel.column import column_linear
from torch import nn

INPUT, SAME, OUTPUT = "t times the output", "the output", "1/t of the output"


@dataclass
class Region:
    """One of Megatron's regions, implemented by one of our operators. Calling it runs the forward."""

    group: dist.ProcessGroup
    operator: object
    dim: int | None = None
    input_is: str = SAME

    def __call__(self, x):
        return self.operator(x, *(() if self.dim is None else (self.dim,)), group=self.group)

    def backward(self, gradient):
        """The input gradient, computed by the operator's adjoint from the output gradient."""
        size, shape = dist.get_world_size(self.group), list(gradient.shape)
        if self.dim is not None:
            shape[self.dim] = shape[self.dim] * size if self.input_is == INPUT else shape[self.dim] // size
        x = torch.zeros(shape, requires_grad=True)
        return torch.autograd.grad(self(x), x, gradient)[0]


class Adapter:
    """Megatron's names and signatures, each one line with our functions. t neighboring ranks form a group."""

    def __init__(self, t):
        groups = [dist.new_group(range(first, first + t)) for first in range(0, dist.get_world_size(), t)]
        self.rank, self.group = dist.get_rank(), groups[dist.get_rank() // t]
        self.in_group = dist.get_rank(self.group)
        self.copy_to = Region(self.group, tp.copy_to_tp)
        self.reduce_from = Region(self.group, tp.reduce_from_tp)
        self.scatter_to = Region(self.group, tp.split, -1, INPUT)
        self.gather_from = Region(self.group, tp.gather, -1, OUTPUT)
        self.scatter_to_sequence = Region(self.group, tp.split, 0, INPUT)
        self.gather_from_sequence = Region(self.group, tp.gather_to_all, 0, OUTPUT)
        self.reduce_scatter_to_sequence = Region(self.group, tp.sum_and_scatter, 0, INPUT)

    def linear_with_frozen_weight(self, x, weight, bias):
        return column_linear(x, weight, bias, sequence_dim=None, group=self.group)

    def vocab_parallel_cross_entropy(self, logits, target, label_smoothing=0.0):
        vocabulary = logits.shape[-1] * dist.get_world_size(self.group)
        return tp.vocabulary_parallel_cross_entropy(
            logits, target, vocabulary=vocabulary, group=self.group, label_smoothing=label_smoothing
        )

    def column(self, inputs, outputs, *, gather_output=False, skip_bias_add=False):
        options = {"gather_output": gather_output, "skip_bias_add": skip_bias_add}
        return tp.ColumnParallelLinear(nn.Linear(inputs, outputs), group=self.group, **options)

    def row(self, inputs, outputs, *, input_is_parallel=True, skip_bias_add=False):
        options = {"input_is_parallel": input_is_parallel, "skip_bias_add": skip_bias_add}
        return tp.RowParallelLinear(nn.Linear(inputs, outputs), group=self.group, **options)

    def embedding(self, tokens, width):
        return tp.VocabularyParallelEmbedding(nn.Embedding(tokens, width), group=self.group)


def everyones(megatron, length):
    """Each rank's number, `length` times, concatenated over the ranks of the group."""
    return (megatron.rank - megatron.in_group + torch.arange(4.0)).repeat_interleave(length)


def copy_to_region(megatron):
    mine = torch.full((1,), float(megatron.rank))
    assert megatron.copy_to.backward(mine).item() == (22 if megatron.rank >= 4 else 6)
    assert torch.equal(megatron.copy_to(mine), mine)


def reduce_from_region(megatron):
    mine = torch.full((1,), float(megatron.rank))
    assert megatron.reduce_from(mine).item() == (22 if megatron.rank >= 4 else 6)
    assert mine.item() == megatron.rank and torch.equal(megatron.reduce_from.backward(mine), mine)


def scatter_to_region(megatron):
    whole = torch.rand(8, 4)
    assert torch.equal(megatron.scatter_to(whole), whole[:, [megatron.in_group]])
    assert torch.equal(megatron.scatter_to.backward(torch.full((8,), float(megatron.rank))), everyones(megatron, 8))


def gather_from_region(megatron):
    whole = torch.rand(8, 4)
    assert torch.equal(megatron.gather_from.backward(whole), whole[:, [megatron.in_group]])
    assert torch.equal(megatron.gather_from(torch.full((8,), float(megatron.rank))), everyones(megatron, 8))


def scatter_to_sequence_region(megatron):
    whole, first = torch.rand(8, 4), 2 * megatron.in_group
    assert torch.equal(megatron.scatter_to_sequence(whole), whole[first : first + 2])
    mine = torch.full((4,), float(megatron.rank))
    assert torch.equal(megatron.scatter_to_sequence.backward(mine), everyones(megatron, 4))


def gather_from_sequence_region(megatron):
    mine = torch.full((4,), float(megatron.rank))
    assert torch.equal(megatron.gather_from_sequence(mine), everyones(megatron, 4))
    rows = torch.arange(4.0).view(4, 1).expand(4, 4)  # the same on every rank, so the sum is four times as large
    assert torch.equal(megatron.gather_from_sequence.backward(rows), torch.full((1, 4), 4.0 * megatron.in_group))


def reduce_scatter_to_sequence_region(megatron):
    rows = torch.arange(4.0).view(4, 1).expand(4, 4)
    assert torch.equal(megatron.reduce_scatter_to_sequence(rows), torch.full((1, 4), 4.0 * megatron.in_group))
    mine = torch.full((4,), float(megatron.rank))
    assert torch.equal(megatron.reduce_scatter_to_sequence.backward(mine), everyones(megatron, 4))


def cross_entropy(megatron):
    """0 to 7 four times in each rank's columns: the log of 16 times their sum of exponentials, minus the target."""
    logits, target = torch.arange(8.0).repeat(16, 4), torch.arange(0, 32, 2)
    due = torch.tensor([10.2309, 8.2309, 6.2309, 4.2309]).repeat(4)
    torch.testing.assert_close(megatron.vocab_parallel_cross_entropy(logits, target), due, rtol=0, atol=1e-4)


def parts_of_whole_weights(megatron):
    """The initial weights of t = 4 are parts of the initial weights of t = 1, for the same seed."""
    first = 4 * megatron.in_group
    for make, part_of in (
        (lambda one: one.embedding(16, 4), lambda weight: weight[first : first + 4]),
        (lambda one: one.column(16, 16), lambda weight: weight[first : first + 4]),
        (lambda one: one.row(16, 16, input_is_parallel=False), lambda weight: weight[:, first : first + 4]),
    ):
        weights = []
        for one in (Adapter(1), megatron):
            torch.manual_seed(42)
            weights.append(make(one).weight)
        assert torch.equal(part_of(weights[0]), weights[1])


def layers_with_their_options(megatron):
    """A gathered output, an input to split, a bias left to the caller: all together still match the whole layer."""
    x = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    for make, options in (
        (Adapter.column, {"gather_output": True}),
        (Adapter.column, {"gather_output": True, "skip_bias_add": True}),
        (Adapter.row, {"input_is_parallel": False}),
        (Adapter.row, {"input_is_parallel": False, "skip_bias_add": True}),
    ):
        torch.manual_seed(7)
        whole = nn.Linear(16, 8)
        torch.manual_seed(7)
        layer = make(megatron, 16, 8, **options)
        skipped = options.get("skip_bias_add", False)
        due = whole(x) - (whole.bias if skipped else 0)
        torch.testing.assert_close(layer(x), due, rtol=1e-5, atol=1e-6)
        if skipped:  # the caller adds the bias, which a column layer splits
            assert torch.equal(
                layer.bias, whole.bias.chunk(4)[megatron.in_group] if make is Adapter.column else whole.bias
            )


TESTS = [
    copy_to_region,
    reduce_from_region,
    scatter_to_region,
    gather_from_region,
    scatter_to_sequence_region,
    gather_from_sequence_region,
    reduce_scatter_to_sequence_region,
    cross_entropy,
    parts_of_whole_weights,
    layers_with_their_options,
]


def on_two_groups_of_four(test):
    torch.set_num_threads(1)
    test(Adapter(4))
    return True


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_our_operators_pass_what_megatron_asks(test):
    assert shardlab.run(on_two_groups_of_four, test, ranks=8, timeout=60) == [True] * 8


def frozen_weight(t):
    megatron = Adapter(t)
    x = torch.eye(8, requires_grad=True)
    weight, bias = torch.ones(8 // t, 8), torch.zeros(8 // t)
    output = megatron.gather_from(megatron.linear_with_frozen_weight(x, weight, bias))
    output.sum().backward()
    return torch.equal(output, torch.ones(8, 8)) and torch.equal(x.grad, torch.full((8, 8), 8.0)), weight.grad is None


@pytest.mark.parametrize("t", [1, 8])
def test_a_frozen_weight_still_hands_the_whole_gradient_to_its_input(t):
    assert shardlab.run(frozen_weight, t, ranks=8, timeout=60) == [(True, True)] * 8
