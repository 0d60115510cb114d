"""Shared by week 14: layouts, attention on one process in float64, and what a ring may send.

Shapes: q (batch, heads, queries, width); k and v (batch, kv heads, keys, width), where v may have another width.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import torch
from torch import Tensor

from autograder.checks.base import Case, Reply, Task, calls_of, size, touched_input, wrong_value
from autograder.checks.groups import dtype_of, members_of, working

MASKED = ("shardlab.context_parallel", "shardlab.tensor_parallel", "shardlab.hybrid", "shardlab.collectives")
TOLERANCE = 1e-5  # relative to the largest number, in float32: sums may be in another order
CONTIGUOUS, ZIG_ZAG, STRIPED = "contiguous", "zig-zag", "striped"


def owned(layout: str, length: int, rank: int, num_ranks: int) -> Tensor:
    """The positions of a rank, (length / num_ranks,), int64.

    Zig-zag: the r-th of 2c chunks from the front and the r-th from the end. Striped: every c-th (arXiv 2311.09431).
    """
    positions = torch.arange(length)
    if layout == CONTIGUOUS:
        return positions.chunk(num_ranks)[rank].clone()
    if layout == ZIG_ZAG:
        chunks = positions.chunk(2 * num_ranks)
        return torch.cat([chunks[rank], chunks[2 * num_ranks - 1 - rank]])
    return positions[rank::num_ranks].clone()


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = True) -> tuple[Tensor, Tensor]:
    """Attention of all queries to all keys: output (b, heads, s, width of v) and log-sum-exp (b, heads, s)."""
    shared = q.shape[1] // k.shape[1]
    keys, values = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    scores = q @ keys.mT / q.shape[-1] ** 0.5
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ values, scores.logsumexp(-1)


def drawn(rng: Random, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draws normal numbers, rounded to `dtype`."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    return torch.randn(*shape, generator=generator).to(dtype)


def sequence(case: Case, rng: Random) -> tuple[Tensor, Tensor, Tensor]:
    """Draws q, k and v of the whole sequence, `rows` positions per rank. Scores differ a lot between blocks.

    With a `scale` of 100, exp of a log-sum-exp overflows in float32 (it does from 89 on).
    """
    length, dtype = case["rows"] * len(members_of(case)), dtype_of(case)
    batch, width = case.get("batch", 1), case["width"]
    q = case.get("scale", 2) * drawn(rng, batch, case["heads"], length, width, dtype=dtype)
    k = drawn(rng, batch, case["kv_heads"], length, width, dtype=dtype)
    return q, k, drawn(rng, batch, case["kv_heads"], length, case.get("value_width", width), dtype=dtype)


def parts(case: Case, *tensors: Tensor) -> dict[int, list[Tensor]]:
    """Each member's part of the tensors, along dimension 2, and its positions."""
    members = members_of(case)
    length = case["rows"] * len(members)
    places = {rank: owned(case["layout"], length, place, len(members)) for place, rank in enumerate(members)}
    return {rank: [*(one[:, :, mine].clone() for one in tensors), mine] for rank, mine in places.items()}


def wrong_tensors(task: Task, reply: Reply, why: Mapping[str, str], *, relative: float = TOLERANCE) -> str | None:
    """Compares what each rank returns, a tuple or one tensor, with {name: tensor}, in order.

    `why` has the question to ask if the tensor with that name is wrong.
    """
    for rank in working(task):
        value = reply.ranks[rank].get("value")
        received = value.get("plain") if isinstance(value, dict) else None
        expected = task.expected[rank]
        received = [received] if isinstance(received, Tensor) else received
        if not isinstance(received, list | tuple) or len(received) != len(expected):
            return f"Rank {rank} must return {', '.join(expected)}, in this order."
        for one, (name, wanted) in zip(received, expected.items(), strict=True):
            room = 0.0 if wanted.dtype == torch.int64 else relative * _share_of_all(task, name, wanted)
            if problem := wrong_value(rank, one, wanted, name, relative=room):
                return f"{problem} {why.get(name, '')}{_not_a_number(one)}".strip()
        if task.keeps_inputs and (problem := touched_input(rank, reply.ranks[rank], task)):
            return problem
    return None


def _share_of_all(task: Task, name: str, wanted: Tensor) -> float:
    """How many times larger any rank's numbers are than this rank's; 1 also counts, as the magnitude of the inputs.

    The first positions attend to almost nothing: their dq is a difference of equal numbers, and the rounding error that
    remains is as large as where dq is large.
    """
    largest = max(float(task.expected[rank][name].abs().max()) for rank in working(task))
    mine = float(wanted.abs().max())
    return max(1.0, largest) / mine if mine else 1.0


def _not_a_number(received: Any) -> str:
    if isinstance(received, Tensor) and received.is_floating_point() and received.isnan().any():
        return " Some are NaN: do you subtract two infinities, or divide by 0?"
    return ""


def no_ring(task: Task, reply: Reply) -> str | None:
    """The message if a rank sends to more than one other rank."""
    for rank in working(task):
        peers = {call.peer for call in calls_of(reply, rank) if call.kind == "send" and call.peer is not None}
        if len(peers) > 1:
            return f"Rank {rank} sends to ranks {sorted(peers)}. In a ring it sends only to its right neighbor."
    return None


def sends_too_much(task: Task, reply: Reply, most: float, why: str) -> str | None:
    """The message if a rank sends more than `most` bytes, as read from outside the rank."""
    for rank in working(task):
        mine = sum(call.sent_bytes for call in calls_of(reply, rank))
        if mine > most + 64:
            return f"Right, but rank {rank} sends {size(mine)}, and {size(most)} would be enough: {why}."
    return None
