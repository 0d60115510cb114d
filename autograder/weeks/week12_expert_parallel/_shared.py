"""Shared by week 12: which tokens choose which experts, an expert layer on one process in float64, and rows sent.

Shapes: T tokens per rank, H hidden, K choices per token, E experts on all ranks, X on one rank, F width of an expert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import torch
from torch import Tensor
from torch.nn.functional import gelu

from autograder.checks.base import Case, Reply, Task, calls_of, size, touched_input, wrong_value
from autograder.checks.groups import members_of, working

MASKED = ("shardlab.expert_parallel", "shardlab.model", "shardlab.collectives", "shardlab.costs.experts")
TOLERANCE = 1e-5  # relative to the largest number, in float32: sums may be in another order
EVEN, ONE, IDLE, QUIET = "even", "one expert takes all", "a rank receives no row", "a rank has no token"
NUMBER = 8  # bytes per count or expert number


def drawn(rng: Random, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draws normal numbers, rounded to `dtype`."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    return torch.randn(*shape, generator=generator).to(dtype)


def choices(case: Case, rng: Random) -> list[Tensor]:
    """The experts [T, K] that each member's tokens choose; the case's "routing" names the special situation."""
    num, own, k = len(members_of(case)), case["own"], case["k"]
    routing, special = case["routing"], case.get("special", 0)
    allowed = list(range(num * own))
    if routing == ONE:
        allowed = [special]
    if routing == IDLE:
        allowed = [one for one in allowed if one // own != special]
    quiet = special if routing == QUIET else -1
    tokens = [0 if member == quiet else case["tokens"] + member for member in range(num)]
    drawn_TK = ([rng.sample(allowed, k) for _ in range(mine)] for mine in tokens)
    return [torch.tensor(mine, dtype=torch.int64).view(-1, k) for mine in drawn_TK]


def layer(x_TH: Tensor, experts_TK: Tensor, weights_TK: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Each token's weighted sum [T, H] over its experts; up [E, H, F], down [E, F, H]."""
    inner = gelu(x_TH[:, None, None] @ up[experts_TK])
    return ((inner @ down[experts_TK]).squeeze(2) * weights_TK[..., None]).sum(1)


def with_gradients(
    parts: Sequence[Tensor], experts: Sequence[Tensor], weights: Sequence[Tensor], up: Tensor, down: Tensor, rng: Random
) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], Tensor, Tensor]:
    """Draws the output gradients; returns them, outputs, gradients of x and weights by member, and of up and down."""
    lengths = [len(one) for one in parts]
    x, all_weights = torch.cat(list(parts)), torch.cat(list(weights))
    gradient = drawn(rng, *x.shape)
    leaves = [one.double().requires_grad_() for one in (x, all_weights, up, down)]
    output = layer(leaves[0], torch.cat(list(experts)), *leaves[1:])
    found = torch.autograd.grad(output, leaves, gradient.double())
    outputs, of_x, of_weights = (
        [one.clone() for one in whole.float().split(lengths)] for whole in (output.detach(), *found[:2])
    )
    gradients = [one.clone() for one in gradient.split(lengths)]
    return gradients, outputs, of_x, of_weights, found[2].float(), found[3].float()


def traffic(experts: Sequence[Tensor], own: int) -> list[list[int]]:
    """The number of rows from member to member, one row per choice."""
    return [torch.bincount(one.flatten() // own, minlength=len(experts)).tolist() for one in experts]


def leaving(rows: Sequence[Sequence[int]], member: int) -> int:
    """The number of rows that a member sends to others."""
    return sum(rows[member]) - rows[member][member]


def arriving(rows: Sequence[Sequence[int]], member: int) -> int:
    """The number of rows that others send to a member."""
    return sum(one[member] for one in rows) - rows[member][member]


def wrong_tensors(
    task: Task, reply: Reply, why: Mapping[str, str], *, relative: float = TOLERANCE, factors: bool = False
) -> str | None:
    """Compares the tuple that each rank returns with {name: tensor}, in order, including empty tensors.

    `why` has the question to ask if the tensor with that name is wrong; `factors`: whether to report a common factor.
    """
    for rank in working(task):
        value, expected = reply.ranks[rank].get("value"), task.expected[rank]
        received = value.get("plain") if isinstance(value, dict) else None
        if not isinstance(received, list | tuple) or len(received) != len(expected):
            return f"Rank {rank} must return {', '.join(expected)}, in this order."
        for one, (name, wanted) in zip(received, expected.items(), strict=True):
            room = relative if wanted.is_floating_point() and wanted.numel() else 0.0
            if problem := wrong_value(rank, one, wanted, name, relative=room):
                multiple = _multiple(one, wanted) if factors else ""
                return f"{problem} {multiple}{why.get(name, '')}".strip()
        if task.keeps_inputs and (problem := touched_input(rank, reply.ranks[rank], task)):
            return problem
    return None


def _multiple(received: object, wanted: Tensor) -> str:
    if not isinstance(received, Tensor) or received.shape != wanted.shape or not wanted.any():
        return ""
    factor = float((received.double() * wanted.double()).sum() / wanted.double().square().sum())
    if abs(factor - 1) < 1e-3 or not torch.allclose(received.double(), factor * wanted.double(), rtol=1e-3, atol=1e-6):
        return ""
    return f"The whole tensor is {factor:.4g} times the expected one. "


def sends_too_much(task: Task, reply: Reply, most: Mapping[int, float], why: str) -> str | None:
    """The message if a rank sends more than `most[rank]` bytes, as read from outside the rank."""
    for rank in working(task):
        mine = sum(call.sent_bytes for call in calls_of(reply, rank))
        if mine > most[rank]:
            return f"Right, but rank {rank} sends {size(mine)}, and {size(most[rank])} would be enough: {why}."
    return None
