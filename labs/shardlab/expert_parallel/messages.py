"""The one message of expert parallelism: an all-to-all of as many rows as ranks have for each other; its backward, too.

torch's own on gloo gives a result without a gradient, silently. Here it is two operators, `start` and `wait`, of which
each is the other's adjoint: the backward of `wait` starts the reverse all-to-all, that of `start` waits for it. So what
overlaps in the forward overlaps in the backward, in the mirrored order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.expert_parallel.agreement import Group, check_counts
from shardlab.expert_parallel.turns import Turns
from shardlab.meter import place

place.hide(__file__)  # the meter names what dispatches or combines

Started = Callable[[], Tensor]
Link = Callable[[Sequence[int], Sequence[int], Group], float]


@dataclass(frozen=True)
class Travel:
    """How rows travel.

    link: when bytes that leave and arrive, by rank, are through at the earliest, in seconds of the monotonic clock;
    None where real links say it. turns: who may compute while rows travel; None where nobody else does.
    """

    link: Link | None = None
    turns: Turns | None = None


DIRECT = Travel()


def all_to_all(
    x_RH: Tensor,
    sent: Sequence[int],
    received: Sequence[int],
    *,
    group: Group,
    agreed: bool = False,
    travel: Travel = DIRECT,
) -> Tensor:
    """The first sent[0] rows go to rank 0, the next sent[1] to rank 1, ...; returned are the rows for this rank.

    received: rows from each rank, which the ranks must know beforehand. agreed: they were exchanged before, and are
    not checked once more. A rank without rows takes part, forward and backward.
    Raises ValueError, on every rank alike and before a row is sent, where `sent` and `received` disagree.
    """
    if not agreed:
        check_counts(sent, received, len(x_RH), group=group)
    return start_all_to_all(x_RH, sent, received, group=group, travel=travel)()


def start_all_to_all(
    x_RH: Tensor, sent: Sequence[int], received: Sequence[int], *, group: Group, travel: Travel = DIRECT
) -> Started:
    """Send without a check; what is returned waits, and gives the rows that have arrived."""
    if dist.get_world_size(group) == 1:
        return lambda: x_RH
    flight = _Flight(list(sent), list(received), group, travel)
    arriving = _Start.apply(x_RH, flight)
    return lambda: _Wait.apply(arriving, flight)


@dataclass
class _Flight:
    """An all-to-all and the one that takes its gradient back; at any time one of them at most is under way."""

    sent: list[int]
    received: list[int]
    group: Group
    travel: Travel
    through_at: float = 0.0
    under_way: tuple[Any, Tensor, Tensor] | None = None  # its handle, what arrives, and what leaves, kept till then

    def start(self, x: Tensor, sent: list[int], received: list[int]) -> Tensor:
        leaving = x.contiguous()
        arriving = leaving.new_empty(sum(received), *x.shape[1:])
        work = dist.all_to_all_single(arriving, leaving, received, sent, group=self.group, async_op=True)
        self.under_way = work, arriving, leaving
        if self.travel.link is not None:
            row_bytes = x.element_size() * x.shape[1:].numel()
            out, into = ([rows * row_bytes for rows in some] for some in (sent, received))
            self.through_at = self.travel.link(out, into, self.group)
        return arriving

    def wait(self) -> Tensor:
        assert self.under_way is not None
        work, arrived, _ = self.under_way
        if self.travel.turns is not None:
            self.travel.turns.give()
        work.wait()
        time.sleep(max(0.0, self.through_at - time.monotonic()))
        self.under_way = None
        return arrived


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, flight: _Flight) -> Tensor:
        ctx.flight = flight
        return flight.start(x, flight.sent, flight.received)

    @staticmethod
    def backward(ctx: Any, *_under_way: Tensor) -> tuple[Tensor, None]:
        return ctx.flight.wait(), None


class _Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arriving: Tensor, flight: _Flight) -> Tensor:
        ctx.flight = flight
        flight.wait()
        return arriving.view_as(arriving)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.flight.start(gradients[0], ctx.flight.received, ctx.flight.sent)
        return gradients[0], None  # of the right shape; its numbers are on their way to other ranks
