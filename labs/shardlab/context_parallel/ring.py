"""Ring attention: keys and values go around the ring, and each rank attends to one block while the next one is sent.

Forward (arXiv 2310.01889): in step i, rank r has the keys and values of rank r-i. Backward: they go around once more.
The gradients of each block follow one step behind, and every rank adds its part until they are back home. Each of the
three rounds sends c-1 blocks per rank. In the backward, a block is sent in strips, and a strip is freed as soon as it
was used and passed on. Keys and values therefore take the memory of one block and a strip, and so do the gradient sums.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.balance import SequenceLayout
from shardlab.context_parallel.mask import Mask, Strip, Tile, tiles
from shardlab.context_parallel.messages import Group, Pass, Passing, pass_right
from shardlab.context_parallel.online import Attended, Gradients
from shardlab.costs.context import ring_strips


@dataclass(frozen=True)
class Ring:
    """Keys and values go around the ring. pass_on: how to send a block to the right neighbor."""

    pass_on: Pass = pass_right

    def problem(self, heads: int, kv_heads: int, num_ranks: int) -> str | None:
        """None: every number of heads works."""
        return None

    def attended(self, q: Tensor, k: Tensor, v: Tensor, layout: SequenceLayout, mask: Mask, group: Group) -> Tensor:
        """o_BASD of this rank's queries over the keys of all ranks."""
        return _Ring.apply(q, k, v, _Round(layout, mask, group, self.pass_on))


@dataclass(frozen=True)
class _Round:
    """Which rank's block is here in each step, and which of its keys this rank's queries see."""

    layout: SequenceLayout
    mask: Mask
    group: Group
    pass_on: Pass

    @property
    def num_steps(self) -> int:
        return self.layout.num_ranks

    @property
    def strips(self) -> list[Strip]:
        """The strips in which a block is sent in the backward."""
        return self.layout.strips(ring_strips(self.layout.tokens_per_rank))

    def tiles(self, step: int, strip: Strip | None = None) -> tuple[Tile, ...]:
        rank = dist.get_rank(self.group)
        return tiles(self.layout, rank, (rank - step) % self.num_steps, self.mask, strip)


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor, way: _Round) -> Tensor:
        """In each step: 1. start sending the block on  2. attend to it meanwhile  3. wait for the next block."""
        own = here = [k_BKSD.contiguous(), v_BKSD.contiguous()]
        attended = Attended(q_BASD)
        for step in range(way.num_steps):
            is_last = step == way.num_steps - 1
            passing = None if is_last else way.pass_on(here, way.group)
            attended.see(here, way.tiles(step))
            if passing:
                passing.sent()
                here, passing = passing.arrived(), None  # the sent block can be freed now

        o_BASD, lse_BAS = attended.result()
        ctx.way = way
        ctx.save_for_backward(q_BASD, *own, o_BASD, lse_BAS)
        return o_BASD

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """1. Other ranks' blocks  2. this rank's own block, while the other ranks' gradient sum for it arrives."""
        way: _Round = ctx.way
        q_BASD, k_BKSD, v_BKSD, o_BASD, lse_BAS = ctx.saved_tensors
        found = Gradients(gradients[0], q_BASD, o_BASD, lse_BAS)
        home = _go_round(found, k_BKSD, v_BKSD, way)

        own_2BKSD = found.of((k_BKSD, v_BKSD), way.tiles(0))
        for strip in way.strips if home else []:
            _add(own_2BKSD, strip, home.popleft().arrived()[0])
        dk, dv = own_2BKSD
        return found.dq, dk.to(k_BKSD.dtype), dv.to(v_BKSD.dtype), None


def _go_round(found: Gradients, k_BKSD: Tensor, v_BKSD: Tensor, way: _Round) -> deque[Passing]:
    """For each strip of another rank's block: 1. pass it on  2. add this rank's gradients, computed from o and lse over
    all keys, to the sum from previous ranks  3. pass the sum on. Returns this rank's own sums, still in transit.
    """
    keys, sums, leaving = deque[Passing](), deque[Passing](), _Leaving(way)
    if way.num_steps > 1:
        keys.extend(leaving.passing(_packed(k_BKSD, v_BKSD, strip)) for strip in way.strips)
    for step in range(1, way.num_steps):
        for strip in way.strips:
            (here,) = keys.popleft().arrived()
            if step < way.num_steps - 1:
                keys.append(leaving.passing(here))
            total = sums.popleft().arrived()[0] if step > 1 else torch.zeros_like(here, dtype=found.dtype)
            found.add(total, here, way.tiles(step, strip))
            sums.append(leaving.passing(total))
    leaving.wait()
    return sums


class _Leaving:
    """Strips in transit to the right neighbor: at most two at a time, because each takes memory."""

    def __init__(self, way: _Round) -> None:
        self._way, self._strips = way, deque[Passing]()

    def passing(self, strip: Tensor) -> Passing:
        self._strips.append(self._way.pass_on([strip], self._way.group))
        self.wait(2)
        return self._strips[-1]

    def wait(self, most: int = 0) -> None:
        """Wait until at most `most` strips are in transit."""
        while len(self._strips) > most:
            self._strips.popleft().sent()


def _packed(k_BKSD: Tensor, v_BKSD: Tensor, strip: Strip) -> Tensor:
    """Keys and values [2, B, K, T, D] of a strip."""
    num = sum(end - begin for begin, end in strip)
    packed = k_BKSD.new_empty(2, *k_BKSD.shape[:2], num, k_BKSD.shape[3])
    for whole, part in zip((k_BKSD, v_BKSD), packed, strict=True):
        torch.cat([whole[:, :, begin:end] for begin, end in strip], 2, out=part)
    return packed


def _add(total_2BKSD: Tensor, strip: Strip, part_2BKTD: Tensor) -> None:
    sizes = [end - begin for begin, end in strip]
    for (begin, end), piece in zip(strip, part_2BKTD.split(sizes, 3), strict=True):
        total_2BKSD[:, :, :, begin:end].add_(piece)
