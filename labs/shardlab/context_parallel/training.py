"""A training step with split sequences: shift labels before the split, and sum over the right ranks after it.

labels = next_tokens(tokens, mask)                                    # 1. shift, on the whole sequence
part = split_batch(tokens, labels, layout=layout, rank=rank, mask=mask)  # 2. split
loss = valid_token_loss(model(part.tokens, part.positions), part.labels, group=dp_cp)
loss.backward()
sum_gradients(model, group=dp_cp)                                     # 3. gradients, over dp and cp together
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from shardlab.context_parallel.attention import RING, Method, attend
from shardlab.context_parallel.balance import SequenceLayout, own_part
from shardlab.context_parallel.mask import CAUSAL, Mask
from shardlab.context_parallel.messages import Group
from shardlab.model.attention import Attention

IGNORED = -100  # a label that does not count, as in torch.nn.functional.cross_entropy


class Part(NamedTuple):
    """This rank's tokens [B, S], their labels [B, S], and their positions in their documents, [S] or [B, S]."""

    tokens: Tensor
    labels: Tensor
    positions: Tensor


def next_tokens(tokens_BS: Tensor, mask: Mask = CAUSAL) -> Tensor:
    """Labels [B, s]: the next token of the same document, or IGNORED for the last token.

    Call it on the whole sequence. After a split, the next token may be on another rank, and at the border of two chunks
    the following token in memory is not the next one.
    """
    labels_BS = functional.pad(tokens_BS[:, 1:], (0, 1), value=IGNORED)
    for number, lengths in enumerate(mask.documents):
        rows = slice(number, number + 1) if len(mask.documents) > 1 else slice(None)
        labels_BS[rows, torch.tensor(lengths).cumsum(0) - 1] = IGNORED
    return labels_BS


def split_batch(
    tokens_BS: Tensor, labels_BS: Tensor, *, layout: SequenceLayout, rank: int, mask: Mask = CAUSAL
) -> Part:
    """A rank's tokens with labels and positions. Raises ValueError if the labels' shape or the length is wrong."""
    if tokens_BS.shape != labels_BS.shape:
        raise ValueError(f"labels {list(labels_BS.shape)} for tokens {list(tokens_BS.shape)}: give one label per token")
    if wrong := mask.problem(tokens_BS.shape[1], len(tokens_BS)):
        raise ValueError(wrong)
    own = layout.positions(rank)
    positions = [mask.position_ids(own, layout.length, number) for number in range(max(1, len(mask.documents)))]
    ids = torch.stack(positions).to(tokens_BS.device) if len(positions) > 1 else positions[0].to(tokens_BS.device)
    return Part(own_part(tokens_BS, layout, rank), own_part(labels_BS, layout, rank), ids)


def valid_token_loss(logits_BSV: Tensor, labels_BS: Tensor, *, group: Group) -> Tensor:
    """The mean cross-entropy over the valid tokens of all ranks. It is the same number on every rank.

    group: all ranks with parts of the batch, dp and cp together. The gradient covers only this rank's tokens, so sum
    the ranks' gradients. A mean of the ranks' means would give a rank's only valid token the weight of another rank's
    thousand tokens. Raises the same ValueError on every rank if no rank has a valid token.
    """
    num_valid = (labels_BS != IGNORED).sum().to(torch.float64)
    dist.all_reduce(num_valid, group=group)
    if num_valid == 0:
        raise ValueError(f"every label on every rank is {IGNORED}: give at least one token to predict")
    summed = functional.cross_entropy(
        logits_BSV.flatten(0, 1).float(), labels_BS.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    mine = summed / num_valid.to(summed.dtype)
    total = mine.detach().clone()
    dist.all_reduce(total, group=group)
    return mine + (total - mine.detach())


@torch.no_grad()
def sum_gradients(module: nn.Module, *, group: Group) -> None:
    """Sum gradients over all ranks in place, with one all-reduce per dtype. A missing gradient counts as zeros.

    The loss is already divided by the valid tokens of all ranks, so taking a mean here would divide twice.
    """
    trained = [one for one in module.parameters() if one.requires_grad]
    for dtype in sorted({one.dtype for one in trained}, key=str):
        mine = [one for one in trained if one.dtype == dtype]
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in mine]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat, group=group)
        for one, gradient, total in zip(mine, gradients, flat.split([one.numel() for one in mine]), strict=True):
            one.grad = gradient.copy_(total.view_as(one))


class ContextParallelCore(nn.Module):
    """`AttentionCore` over the keys of all ranks. The mask can be set for each batch. agreed: as in `attend`."""

    def __init__(self, layout: SequenceLayout, group: Group, method: Method, mask: Mask, agreed: bool) -> None:
        super().__init__()
        self.layout, self.group, self.method, self.mask, self.agreed = layout, group, method, mask, agreed

    def forward(self, q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor) -> Tensor:
        return attend(
            q_BASD,
            k_BKSD,
            v_BKSD,
            layout=self.layout,
            group=self.group,
            method=self.method,
            mask=self.mask,
            agreed=self.agreed,
        )


def split_attention(
    model: nn.Module,
    *,
    layout: SequenceLayout,
    group: Group,
    method: Method = RING,
    mask: Mask = CAUSAL,
    agreed: bool = False,
) -> nn.Module:
    """Let every attention layer of a model see the keys of all ranks. Changes the model in place and returns it.

    Then call the model with this rank's tokens and their positions. Weights and their names do not change. Raises
    ValueError for a model without attention, or with dropout on the scores, since no block keeps its scores.
    """
    found = [one for one in model.modules() if isinstance(one, Attention)]
    if not found:
        raise ValueError("the model has no Attention of shardlab.model: there is nothing to split")
    for one in found:
        if not isinstance(one.core, ContextParallelCore) and one.core.dropout.p > 0:
            raise ValueError(
                f"dropout on attention scores (p = {one.core.dropout.p}) is not supported: "
                "build the model with flash=True"
            )
        one.core = ContextParallelCore(layout, group, method, mask, agreed)  # type: ignore[assignment]
    return model
