"""The all-to-all of expert parallelism, with uneven row counts and a backward.

On gloo, torch's own all-to-all silently returns a result without a gradient. Here it consists of two operators, `start`
and `wait`, each the adjoint of the other: the backward of `wait` starts the reverse all-to-all, and the backward of
`start` waits for it. Whatever overlaps in the forward therefore overlaps in the backward, in reverse order.
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

place.hide(__file__)  # so that the meter reports the caller, which dispatches or combines

Started = Callable[[], Tensor]
Link = Callable[[Sequence[int], Sequence[int], Group], float]


@dataclass(frozen=True)
class Travel:
    """How rows are sent.

    link: the earliest time, in seconds of the monotonic clock, when the bytes to and from each rank have been
    transferred; None uses only the real links. turns: lets other work compute while rows are in transit, or None.
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
    """Send the first sent[0] rows to rank 0, the next sent[1] to rank 1, and so on. Returns the rows for this rank.

    received: the number of rows from each rank, which must be known beforehand. agreed: the counts were already
    exchanged and are not checked again. A rank without rows still takes part in forward and backward.
    Raises the same ValueError on every rank, before any row is sent, if `sent` and `received` disagree.
    """
    if not agreed:
        check_counts(sent, received, len(x_RH), group=group)
    return start_all_to_all(x_RH, sent, received, group=group, travel=travel)()


def start_all_to_all(
    x_RH: Tensor, sent: Sequence[int], received: Sequence[int], *, group: Group, travel: Travel = DIRECT
) -> Started:
    """Start sending, without a check. Calling the result waits and returns the rows that have arrived."""
    if dist.get_world_size(group) == 1:
        return lambda: x_RH
    flight = _Flight(list(sent), list(received), group, travel)
    arriving = _Start.apply(x_RH, flight)
    return lambda: _Wait.apply(arriving, flight)


@dataclass
class _Flight:
    """An all-to-all and the reverse one for its gradient. At most one of them is in flight at any time."""

    sent: list[int]
    received: list[int]
    group: Group
    travel: Travel
    through_at: float = 0.0
    under_way: tuple[Any, Tensor, Tensor] | None = None  # handle, receive buffer, send buffer (kept alive)

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
        return gradients[0], None  # only its shape matters: the values are in flight to other ranks
