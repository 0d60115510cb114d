"""Our operators, layers, embedding and loss compared with megatron-core's: same weights, same ranks."""

import sys
from pathlib import Path

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from shardlab.tensor_parallel.operators import copy_to_tp, gather, gather_to_all, reduce_from_tp, split, sum_and_scatter
from shardlab.tensor_parallel.vocabulary import VocabularyParallelEmbedding, vocabulary_parallel_cross_entropy
from torch import nn
from torch.nn import functional

LAB = str(Path(__file__).parents[3] / "labs" / "lab02-megatron")
pytestmark = [
    pytest.mark.slow,  # each rank imports Megatron
    pytest.mark.skipif(
        sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core is built for neither"
    ),
]


def with_megatron(function, *args):
    """Run a comparison on ranks where the CPU takes the place of CUDA."""
    sys.path.insert(0, LAB)
    from on_cpu import megatron_on_cpu

    torch.set_num_threads(1)
    megatron_on_cpu(dist.get_world_size())
    return function(*args)


def on_ranks(function, *args, ranks):
    return shardlab.run(with_megatron, function, *args, ranks=ranks, timeout=150, transport="gloo")


def drawn(*shape, own=False):
    seed = 100 + dist.get_rank() if own else 99
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def both(ours, theirs, x):
    """Outputs and gradients of two functions of the same x, with the same output gradient, which differs by rank."""
    results = []
    for function in (ours, theirs):
        leaf = x.clone().requires_grad_()
        output = function(leaf)
        output.backward(drawn(*output.shape, own=True))
        results.append((output.detach(), leaf.grad))
    return results


def operators():
    from megatron.core.tensor_parallel import mappings

    size = dist.get_world_size()
    long, short = (4 * size, 3, 2 * size), (4, 3, 2)
    pairs = {
        "copy_to_tensor_model_parallel_region": (lambda x: copy_to_tp(x, group=None), short),
        "reduce_from_tensor_model_parallel_region": (lambda x: reduce_from_tp(x, group=None), short),
        "scatter_to_tensor_model_parallel_region": (lambda x: split(x, -1, group=None), long),
        "gather_from_tensor_model_parallel_region": (lambda x: gather(x, -1, group=None), short),
        "scatter_to_sequence_parallel_region": (lambda x: split(x, 0, group=None), long),
        "gather_from_sequence_parallel_region": (lambda x: gather_to_all(x, 0, group=None), short),
        "reduce_scatter_to_sequence_parallel_region": (lambda x: sum_and_scatter(x, 0, group=None), long),
        "all_gather_last_dim_from_tensor_parallel_region": (lambda x: gather_to_all(x, -1, group=None), short),
        "reduce_scatter_last_dim_to_tensor_parallel_region": (lambda x: sum_and_scatter(x, -1, group=None), long),
    }
    for name, (ours, shape) in pairs.items():
        (mine, my_gradient), (theirs, their_gradient) = both(ours, getattr(mappings, name), drawn(*shape, own=True))
        assert torch.equal(mine, theirs) and torch.equal(my_gradient, their_gradient), name

    def whole_gradient(x):
        return mappings.gather_from_sequence_parallel_region(x, tensor_parallel_output_grad=False)

    (mine, my_gradient), (theirs, their_gradient) = both(
        lambda x: gather(x, 0, group=None), whole_gradient, drawn(*short, own=True)
    )
    assert torch.equal(mine, theirs) and torch.equal(my_gradient, their_gradient)

    transposed = drawn(3, 4, own=True).t()
    everyone = [torch.empty(3, 4) for _ in range(size)]
    dist.all_gather(everyone, transposed.t().contiguous())
    due = sum(everyone).t()
    return torch.allclose(reduce_from_tp(transposed, group=None), due), torch.allclose(
        mappings.reduce_from_tensor_model_parallel_region(transposed), due
    )


@pytest.mark.parametrize("ranks", [2, 4])
def test_our_operators_are_megatrons_to_the_last_bit(ranks):
    """megatron-core 0.16.1 returns a transposed x unchanged, because it sums a copy."""
    assert on_ranks(operators, ranks=ranks) == [(True, False)] * ranks


def layers(sequence_parallel):
    """Largest differences of outputs, input gradients and weight gradients. Megatron's sequence is dimension 0."""
    from megatron.core.tensor_parallel import ColumnParallelLinear as TheirColumn
    from megatron.core.tensor_parallel import RowParallelLinear as TheirRow
    from megatron.core.transformer import TransformerConfig

    size, hidden = dist.get_world_size(), 8
    config = TransformerConfig(
        num_layers=1, hidden_size=hidden, num_attention_heads=size, tensor_model_parallel_size=size,
        sequence_parallel=sequence_parallel, use_cpu_initialization=True,
    )  # fmt: skip
    torch.manual_seed(0)
    whole_up, whole_down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
    dim = 0 if sequence_parallel else None
    up = ColumnParallelLinear(whole_up, group=None, sequence_dim=dim)
    down = RowParallelLinear(whole_down, group=None, sequence_dim=dim)
    common = {"config": config, "init_method": nn.init.zeros_, "bias": True, "skip_bias_add": False}
    their_up = TheirColumn(hidden, 4 * hidden, gather_output=False, **common)
    their_down = TheirRow(4 * hidden, hidden, input_is_parallel=True, **common)
    mine, theirs = [*up.parameters(), *down.parameters()], [*their_up.parameters(), *their_down.parameters()]
    with torch.no_grad():
        for one, other in zip(mine, theirs, strict=True):
            other.copy_(one)
    x = drawn(8, 2, hidden, own=False)
    x = x.chunk(size, 0)[dist.get_rank()] if sequence_parallel else x
    results = []
    for first, second in ((up, down), (lambda x: their_up(x)[0], lambda x: their_down(x)[0])):
        leaf = x.clone().requires_grad_()
        output = second(functional.gelu(first(leaf)))
        output.square().sum().backward()
        results.append([output.detach(), leaf.grad])
    pairs = [*zip(*results, strict=True), *((one.grad, other.grad) for one, other in zip(mine, theirs, strict=True))]
    return max((one - other).abs().max().item() for one, other in pairs)


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["TP", "SP"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_our_layers_are_megatrons(ranks, sequence_parallel):
    assert max(on_ranks(layers, sequence_parallel, ranks=ranks)) < 1e-5


def vocabulary():
    from megatron.core.tensor_parallel import VocabParallelEmbedding, vocab_parallel_cross_entropy
    from megatron.core.transformer import TransformerConfig

    size, rank, num_tokens = dist.get_world_size(), dist.get_rank(), 12
    config = TransformerConfig(
        num_layers=1, hidden_size=8, num_attention_heads=size, tensor_model_parallel_size=size,
        use_cpu_initialization=True,
    )  # fmt: skip
    torch.manual_seed(0)
    whole = nn.Embedding(num_tokens, 8)
    ours = VocabularyParallelEmbedding(whole, group=None)
    theirs = VocabParallelEmbedding(num_tokens, 8, init_method=nn.init.zeros_, config=config)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight)
    tokens = torch.arange(num_tokens).view(3, 4)
    outputs = [module(tokens) for module in (ours, theirs)]
    for output in outputs:
        (output * drawn(3, 4, 8)).sum().backward()
    logits = 5 * drawn(3, 4, num_tokens)
    parts = [logits.chunk(size, -1)[rank].clone().requires_grad_() for _ in range(2)]
    losses = [
        vocabulary_parallel_cross_entropy(parts[0], tokens, vocabulary=num_tokens, group=None),
        vocab_parallel_cross_entropy(parts[1].clone(), tokens),
    ]
    for loss in losses:
        (loss * drawn(3, 4)).sum().backward()
    smoothed = [
        vocabulary_parallel_cross_entropy(
            parts[0].detach(), tokens, vocabulary=num_tokens, group=None, label_smoothing=0.1
        ).mean().item(),
        vocab_parallel_cross_entropy(parts[1].detach().clone(), tokens, 0.1).mean().item(),
    ]  # fmt: skip
    pairs = [outputs, (ours.weight.grad, theirs.weight.grad), losses, [part.grad for part in parts]]
    return max((one - other).abs().max().item() for one, other in pairs), smoothed


@pytest.mark.parametrize("ranks", [2, 4])
def test_our_embedding_and_loss_are_megatrons_on_every_rank(ranks):
    """megatron-core 0.16.1 smooths over a rank's part of the vocabulary, so losses differ by rank (its issue 737)."""
    by_rank = on_ranks(vocabulary, ranks=ranks)
    assert max(apart for apart, _ in by_rank) < 1e-5
    assert len({ours for _, (ours, _) in by_rank}) == 1
    assert len({theirs for _, (_, theirs) in by_rank}) == ranks
