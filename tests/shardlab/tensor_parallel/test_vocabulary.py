"""A split embedding and the loss of split logits compared with torch's, for odd vocabularies, with smoothing."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.vocabulary import (
    VocabularyParallelEmbedding,
    vocabulary_cut,
    vocabulary_parallel_cross_entropy,
)
from torch import nn
from torch.nn import functional


def own(tensor, dim, vocabulary):
    return Cut((vocabulary,), dim, padded=True).part(tensor, dist.get_rank(), dist.get_world_size())


def embedded(vocabulary):
    torch.manual_seed(0)
    whole = nn.Embedding(vocabulary, 5)
    tokens = torch.arange(vocabulary).repeat(2, 2)
    part = VocabularyParallelEmbedding(whole, group=None)
    due, got = whole(tokens), part(tokens)
    weights = torch.randn_like(due)
    (due * weights).sum().backward()
    (got * weights).sum().backward()
    torch.testing.assert_close(got, due)
    torch.testing.assert_close(part.weight.grad, own(whole.weight.grad, 0, vocabulary))
    return len(part.weight)


@pytest.mark.parametrize(("vocabulary", "ranks"), [(12, 1), (12, 3), (13, 3), (9, 4), (3, 4)])
def test_a_split_embedding_is_the_whole_one(vocabulary, ranks):
    assert shardlab.run(embedded, vocabulary, ranks=ranks, timeout=30) == [-(-vocabulary // ranks)] * ranks


def losses(vocabulary, smoothing, dtype):
    """Differences of loss and gradient from torch's: per token, and for tokens with different weights."""
    generator = torch.Generator().manual_seed(1)
    logits = (9 * torch.randn(2, 7, vocabulary, generator=generator)).to(dtype)
    targets = torch.randint(vocabulary, (2, 7), generator=generator)
    weights = torch.rand(2, 7, generator=generator)
    whole = logits.clone().requires_grad_()
    due = functional.cross_entropy(
        whole.float().flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=smoothing
    ).view(2, 7)
    (due * weights).sum().backward()
    part = own(logits, -1, vocabulary)
    columns = part.shape[-1]
    part[..., max(0, min(columns, vocabulary - dist.get_rank() * columns)) :] = 1e4  # padding must not count
    part.requires_grad_()
    got = vocabulary_parallel_cross_entropy(part, targets, vocabulary=vocabulary, group=None, label_smoothing=smoothing)
    (got * weights).sum().backward()
    apart = (part.grad.float() - own(whole.grad, -1, vocabulary).float()).abs().max().item()
    return (got - due).abs().max().item(), apart, got.dtype == torch.float32 and part.grad.dtype == dtype, got.tolist()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("vocabulary", "ranks"), [(12, 1), (12, 4), (13, 4), (9, 4), (5, 4)])
def test_the_loss_of_split_logits_is_torchs(vocabulary, ranks, smoothing):
    by_rank = shardlab.run(losses, vocabulary, smoothing, torch.float32, ranks=ranks, timeout=30)
    for loss, gradient, is_typed, numbers in by_rank:
        assert loss < 1e-5 and gradient < 1e-6 and is_typed
        assert numbers == by_rank[0][3]  # the same bits on every rank


def test_in_bfloat16_the_loss_is_computed_in_float32():
    for loss, gradient, is_typed, _ in shardlab.run(losses, 13, 0.1, torch.bfloat16, ranks=2, timeout=30):
        assert loss < 1e-5 and gradient < 1e-2 and is_typed


def test_vocabularies_are_padded_until_the_ranks_divide_them():
    whole = torch.arange(10.0).view(5, 2)
    parts = [vocabulary_cut(5).part(whole, rank, 4) for rank in range(4)]
    assert [part.shape[0] for part in parts] == [2] * 4
    assert parts[2].tolist() == [[8, 9], [0, 0]] and parts[3].tolist() == [[0, 0], [0, 0]]
    assert torch.equal(vocabulary_cut(5).join(parts), whole)
