"""Two bugs in megatron-core 0.16.1's loss, each with its number (NVIDIA/Megatron-LM#7452, findings 1 and 2)."""

from typing import NamedTuple

import torch
from shardlab.tensor_parallel.messages import own_part
from shardlab.tensor_parallel.vocabulary import vocabulary_parallel_cross_entropy
from torch import Tensor
from torch.nn import functional

TOKENS, SMOOTHING = 16, 0.1


class Losses(NamedTuple):
    """Mean losses of the same logits. whole: by the same definition on one process; split: on this rank."""

    whole: float
    split: float


class Bugs(NamedTuple):
    """Results of one rank. gathered: whole logits given to the loss for split logits; our loss rejects them."""

    megatron_smoothed: Losses
    our_smoothed: Losses
    megatron_gathered: Losses
    our_refusal: str


def both_bugs(vocabulary: int) -> Bugs:
    """On each rank, after `megatron_on_cpu`: losses of the same random logits, whole and split by columns."""
    from megatron.core.tensor_parallel import vocab_parallel_cross_entropy

    torch.manual_seed(0)
    logits, targets = torch.randn(TOKENS, 1, vocabulary), torch.randint(vocabulary, (TOKENS, 1))
    part = own_part(logits, -1, group=None)

    def theirs(given: Tensor, smoothing: float = 0.0) -> float:
        return vocab_parallel_cross_entropy(given.clone(), targets, smoothing).mean().item()  # it modifies its input

    def ours(given: Tensor, smoothing: float = 0.0) -> float:
        losses = vocabulary_parallel_cross_entropy(
            given, targets, vocabulary=vocabulary, group=None, label_smoothing=smoothing
        )
        return losses.mean().item()

    try:
        ours(logits)
        refusal = ""
    except ValueError as error:
        refusal = str(error)
    return Bugs(
        Losses(whole_loss(logits, targets, SMOOTHING * vocabulary / (vocabulary - 1)), theirs(part, SMOOTHING)),
        Losses(whole_loss(logits, targets, SMOOTHING), ours(part, SMOOTHING)),
        Losses(whole_loss(logits, targets, 0.0), theirs(logits)),
        refusal,
    )


def whole_loss(logits: Tensor, targets: Tensor, smoothing: float) -> float:
    """The mean loss of whole logits; `smoothing` is spread over all V classes.

    Megatron spreads it over the other V - 1: the same as torch's with smoothing V/(V - 1).
    """
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing).item()
