"""The loss of a microbatch in the last stage: the sum over its valid tokens, to be divided by those of all ranks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from shardlab.context_parallel.training import IGNORED
from shardlab.tensor_parallel.messages import Group
from shardlab.tensor_parallel.vocabulary import vocabulary_parallel_cross_entropy

Loss = Callable[[Tensor, int], Tensor]


def summed_loss(labels: list[Tensor], *, vocabulary: int, tp_group: Group | None) -> Loss:
    """(logits, microbatch) -> the sum of its tokens' cross-entropy, in float32 or better.

    tp_group: of ranks that have columns of logits each; None where logits are whole. A mean here would weigh a
    microbatch's only valid token like another's thousand.
    """

    def loss(logits_BSV: Tensor, microbatch: int) -> Tensor:
        labels_BS = labels[microbatch]
        if tp_group is None:
            logits_TV = logits_BSV.flatten(0, 1)
            precise = logits_TV.to(torch.promote_types(logits_TV.dtype, torch.float32))
            return functional.cross_entropy(precise, labels_BS.flatten(), ignore_index=IGNORED, reduction="sum")
        is_valid_BS = labels_BS != IGNORED
        targets_BS = labels_BS.masked_fill(~is_valid_BS, 0)
        by_token_BS = vocabulary_parallel_cross_entropy(logits_BSV, targets_BS, vocabulary=vocabulary, group=tp_group)
        return (by_token_BS * is_valid_BS).sum()

    return loss
