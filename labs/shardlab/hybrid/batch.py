"""The batch and loss of one step: check that the ranks' batches agree, and count the tokens to be predicted.

Ranks of one replica (tp, cp, pp) must have the same sequences. All replicas must have the same number of sequences, all
of one length. A single all-reduce checks both.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from shardlab.context_parallel.balance import SequenceLayout, own_part
from shardlab.context_parallel.training import IGNORED
from shardlab.hybrid.groups import WORLD
from shardlab.mesh.process_groups import ProcessGroups
from shardlab.tensor_parallel.messages import Group
from shardlab.tensor_parallel.vocabulary import vocabulary_parallel_cross_entropy

CHECKSUM = 1 << 20  # squares of checksums, summed over a million ranks, still fit in 64 bits


class Microbatches(NamedTuple):
    """This rank's tokens [b, s/c] of each microbatch, their labels, and the number of valid labels on all ranks."""

    tokens: list[Tensor]
    labels: list[Tensor]
    num_valid: int


def num_valid_tokens(tokens_BS: Tensor, labels_BS: Tensor, groups: ProcessGroups, *, vocabulary: int) -> int:
    """The number of labels to predict in the whole batch. Every rank knows it before the first backward.

    Raises the same ValueError on every rank if the ranks' batches do not match, if a rank's tensors do not form a
    batch, or if no rank has a valid label.
    """
    mesh = groups.mesh
    trouble = batch_problem(tokens_BS, labels_BS, vocabulary)
    rows, length = (0, 0) if trouble else tokens_BS.shape
    facts = [rows, length, *(0 for _ in range(mesh.dp))]
    replica = mesh.coordinates(dist.get_rank())["dp"]
    facts[2 + replica] = 1 if trouble else checksum(tokens_BS, labels_BS)
    num_valid = 0 if trouble else int((labels_BS != IGNORED).sum())
    numbers = torch.tensor(
        [bool(trouble), num_valid, *facts, *(fact * fact for fact in facts)], device=labels_BS.device
    )
    dist.all_reduce(numbers, group=groups.of(*WORLD))

    any_trouble, valid, *sums = numbers.tolist()
    first, squares = sums[: len(facts)], sums[len(facts) :]
    sharers = [mesh.world, mesh.world, *(mesh.world // mesh.dp for _ in range(mesh.dp))]
    alike = [n * square == total * total for n, total, square in zip(sharers, first, squares, strict=True)]
    if any_trouble or not all(alike):
        _raise_together(trouble, rows, length, facts[2 + replica], groups)
    if valid == 0:
        raise ValueError(f"every label on every rank is {IGNORED}: give at least one token to predict")
    return valid // (mesh.world // mesh.dp)


def batch_problem(tokens_BS: Tensor, labels_BS: Tensor, vocabulary: int) -> str:
    """Why these tensors do not form a valid batch, or "" if they do."""
    if tokens_BS.dim() != 2 or tokens_BS.shape != labels_BS.shape or not tokens_BS.numel():
        return f"tokens {list(tokens_BS.shape)} with labels {list(labels_BS.shape)}: give both the shape [B, S]"
    for what, numbers in (("token", tokens_BS), ("label", labels_BS[labels_BS != IGNORED])):
        if numbers.numel() and (numbers.amin() < 0 or numbers.amax() >= vocabulary):
            wrong = numbers[(numbers < 0) | (numbers >= vocabulary)][0].item()
            return f"{what} {wrong} is outside the vocabulary of {vocabulary}: use 0 to {vocabulary - 1}"
    return ""


def checksum(*tensors: Tensor) -> int:
    """A checksum (at least 1) that is unlikely to collide."""
    found = 0
    for one in tensors:
        found = zlib.crc32(one.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes(), found)
    return 1 + found % (CHECKSUM - 1)


def microbatches(
    tokens_BS: Tensor, labels_BS: Tensor, num_microbatches: int, layout: SequenceLayout, rank: int, num_valid: int
) -> Microbatches:
    """This cp rank's part of each microbatch. Raises ValueError if the sequences cannot be split evenly."""
    if len(tokens_BS) % num_microbatches:
        fits = len(tokens_BS) // num_microbatches * num_microbatches or num_microbatches
        raise ValueError(
            f"{len(tokens_BS)} sequences cannot be split into {num_microbatches} microbatches: use {fits} sequences"
        )
    mine = (own_part(one, layout, rank) for one in (tokens_BS, labels_BS))
    tokens, labels = (list(one.chunk(num_microbatches)) for one in mine)
    return Microbatches(tokens, labels, num_valid)


def _raise_together(trouble: str, rows: int, length: int, number: int, groups: ProcessGroups) -> None:
    mesh, world = groups.mesh, groups.of(*WORLD)
    by_rank: list[tuple[str, int, int, int]] = [("", 0, 0, 0)] * mesh.world
    dist.all_gather_object(by_rank, (trouble, rows, length, number), group=world)
    for rank, (problem, *_) in enumerate(by_rank):
        if problem:
            raise ValueError(f"rank {rank}: {problem}")
    for rank, (_, *sizes, _) in enumerate(by_rank):
        if sizes != list(by_rank[0][1:3]):
            raise ValueError(
                f"rank {rank} has {sizes[0]} sequences of {sizes[1]} tokens, but rank 0 has {by_rank[0][1]} of "
                f"{by_rank[0][2]}: give every rank the same number of sequences, all of one length"
            )
    for rank, one in enumerate(by_rank):
        replica = mesh.coordinates(rank)["dp"]
        first = next(other for other in range(mesh.world) if mesh.coordinates(other)["dp"] == replica)
        if one != by_rank[first]:
            raise ValueError(
                f"rank {rank} has different tokens or labels from rank {first}, but both work on replica {replica}: "
                "give all ranks with the same dp coordinate the same whole sequences"
            )
    raise ValueError("the ranks' batches differ: give every rank of a replica the same batch")


# The last stage's loss of a microbatch: the sum over its valid tokens, to be divided by the valid tokens of all ranks


Loss = Callable[[Tensor, int], Tensor]


def summed_loss(labels: list[Tensor], *, vocabulary: int, tp_group: Group | None) -> Loss:
    """(logits, microbatch) -> the sum of its tokens' cross-entropy, in float32 or better.

    tp_group: the ranks that each hold some columns of the logits, or None if the logits are whole. Taking a mean here
    would give the only valid token of one microbatch the weight of a thousand tokens in another.
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
