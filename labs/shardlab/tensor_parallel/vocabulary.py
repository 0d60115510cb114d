"""An embedding with split rows, and a loss on logits with split columns, so that no rank ever has all logits.

Shapes: B batch, S sequence, H hidden, V vocabulary, t ranks. Each rank has ceil(V/t) rows. The last rows may be
padding: zeros that no token selects and the softmax ignores (arXiv 1909.08053, section 3).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.layers import own_parameter
from shardlab.tensor_parallel.messages import Group, check_divisible
from shardlab.tensor_parallel.operators import reduce_from_tp, sum_and_scatter


class VocabularyParallelEmbedding(nn.Module):
    """Each rank looks up the tokens in its own rows and returns zeros for others. The results are then summed.

    sequence_dim: each rank gets its part of the sum along this dimension. Raises ValueError for a token outside the
    vocabulary.
    """

    def __init__(self, whole: nn.Embedding, *, group: Group, sequence_dim: int | None = None) -> None:
        super().__init__()
        self.group, self.sequence_dim, self.vocabulary = group, sequence_dim, whole.num_embeddings
        self.cuts = {"weight": vocabulary_cut(whole.num_embeddings)}
        self.weight = own_parameter(whole.weight, self.cuts["weight"], group=group)

    def forward(self, tokens_BS: Tensor) -> Tensor:
        check_tokens(tokens_BS, self.vocabulary, "token")
        if self.sequence_dim is not None:
            check_divisible(tokens_BS.shape[self.sequence_dim], "a sequence of", group=self.group)
        own_BS, is_other_BS = _own(tokens_BS, len(self.weight), self.group)
        x_BSH = functional.embedding(own_BS, self.weight).masked_fill(is_other_BS.unsqueeze(-1), 0.0)
        if self.sequence_dim is None:
            return reduce_from_tp(x_BSH, group=self.group)
        return sum_and_scatter(x_BSH, self.sequence_dim, group=self.group)


def vocabulary_parallel_cross_entropy(
    logits_BSV: Tensor, targets_BS: Tensor, *, vocabulary: int, group: Group, label_smoothing: float = 0.0
) -> Tensor:
    """The loss of each token [B, S], from this rank's ceil(V/t) columns. Same on every rank, in float32 or better.

    Three numbers per token are sent: the largest logit, then the sum of the exponentials and the target's logit. Label
    smoothing adds a fourth, the sum of all logits. vocabulary: V without padding. label_smoothing: as in
    `torch.nn.functional.cross_entropy` (arXiv 1512.00567, section 7), a mean over the whole vocabulary, not over a
    rank's part. Raises ValueError for a target outside the vocabulary, and for logits that are not a rank's part.
    """
    size = dist.get_world_size(group)
    check_tokens(targets_BS, vocabulary, "target")
    if logits_BSV.shape != (*targets_BS.shape, -(-vocabulary // size)):
        raise ValueError(
            f"logits {list(logits_BSV.shape)} for targets {list(targets_BS.shape)}: give each of {size} ranks "
            f"its own {-(-vocabulary // size)} of {vocabulary} columns, not gathered"
        )
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing = {label_smoothing}: use 0 to 0.9")
    return _CrossEntropy.apply(logits_BSV, targets_BS, vocabulary, label_smoothing, group)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits_BSV: Tensor, targets_BS: Tensor, vocabulary: int, smoothing: float, group: Group
    ) -> Tensor:
        """1. the largest logit over all ranks  2. sums over all ranks  3. the loss, and the softmax to save."""
        columns = logits_BSV.shape[-1]
        own_BS, is_other_BS = _own(targets_BS, columns, group)
        num_real = min(columns, max(0, vocabulary - dist.get_rank(group) * columns))  # the others are padding

        ctx.dtype = logits_BSV.dtype
        logits_BSV = logits_BSV.to(torch.promote_types(ctx.dtype, torch.float32))
        lowest_BS = logits_BSV.new_full(own_BS.shape, -torch.inf)
        highest_BS = logits_BSV[..., :num_real].amax(-1) if num_real else lowest_BS
        highest_BS = _over_all(highest_BS, dist.ReduceOp.MAX, group)

        shifted_BSV = logits_BSV - highest_BS.unsqueeze(-1)
        target_BS = shifted_BSV.gather(-1, own_BS.unsqueeze(-1)).squeeze(-1).masked_fill(is_other_BS, 0.0)
        sum_BS = shifted_BSV[..., :num_real].sum(-1)
        softmax_BSV = shifted_BSV.exp_()
        softmax_BSV[..., num_real:] = 0.0
        sums = [softmax_BSV.sum(-1), target_BS, *([sum_BS] if smoothing else [])]
        total_BS, target_BS, *sum_of_logits = _over_all(torch.stack(sums), dist.ReduceOp.SUM, group)

        loss_BS = total_BS.log() - target_BS
        if smoothing:
            loss_BS = loss_BS + smoothing * (target_BS - sum_of_logits[0] / vocabulary)
        softmax_BSV.div_(total_BS.unsqueeze(-1))
        ctx.save_for_backward(softmax_BSV, own_BS, is_other_BS)
        ctx.smoothing, ctx.vocabulary, ctx.num_real = smoothing, vocabulary, num_real
        return loss_BS

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """softmax minus the target distribution: 1 - smoothing at the target, plus smoothing / V everywhere."""
        softmax_BSV, own_BS, is_other_BS = ctx.saved_tensors
        gradient_BSV = softmax_BSV.clone()
        gradient_BSV[..., : ctx.num_real] -= ctx.smoothing / ctx.vocabulary
        at_target_BS = (ctx.smoothing - 1.0) * (~is_other_BS).to(gradient_BSV.dtype)
        gradient_BSV.scatter_add_(-1, own_BS.unsqueeze(-1), at_target_BS.unsqueeze(-1))
        gradient_BSV.mul_(gradients[0].unsqueeze(-1))
        return gradient_BSV.to(ctx.dtype), None, None, None, None


def vocabulary_cut(vocabulary: int) -> Cut:
    """Split the rows of a vocabulary, padded until the ranks divide them."""
    return Cut((vocabulary,), padded=True)


def check_tokens(tokens: Tensor, vocabulary: int, what: str) -> None:
    """Raise ValueError for a token outside the vocabulary. Every rank has the same tokens, so all ranks raise."""
    if tokens.numel() and (tokens.amin() < 0 or tokens.amax() >= vocabulary):
        wrong = tokens[(tokens < 0) | (tokens >= vocabulary)][0].item()
        raise ValueError(f"{what} {wrong} is outside the vocabulary of {vocabulary}: use 0 to {vocabulary - 1}")


def _own(tokens_BS: Tensor, num_rows: int, group: Group) -> tuple[Tensor, Tensor]:
    """Tokens as indices into this rank's rows, and which tokens belong to other ranks (their index is 0)."""
    own_BS = tokens_BS - dist.get_rank(group) * num_rows
    is_other_BS = (own_BS < 0) | (own_BS >= num_rows)
    return own_BS.masked_fill(is_other_BS, 0), is_other_BS


def _over_all(x: Tensor, operation: Any, group: Group) -> Tensor:
    if dist.get_world_size(group) > 1:
        dist.all_reduce(x, operation, group=group)
    return x
