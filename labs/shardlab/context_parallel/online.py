"""Online softmax: combine attention over blocks of keys into attention over all keys, in any order (arXiv 1805.02867).

Two results o1, o2 over disjoint keys, with log-sum-exps l1, l2, combine into one:
l = log(e^l1 + e^l2), o = e^(l1-l) o1 + e^(l2-l) o2. Sums are in fp32 or better, whatever the input dtype.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from shardlab.context_parallel.balance import contiguous
from shardlab.context_parallel.kernel import block, block_backward
from shardlab.context_parallel.mask import STRIP, Mask, Tile, halved, tiles


def merge(o_BASD: Tensor, lse_BAS: Tensor, other_BASD: Tensor, other_lse_BAS: Tensor) -> None:
    """Merge the result over other keys into o and lse, in place."""
    total_BAS = torch.logaddexp(lse_BAS, other_lse_BAS)
    o_BASD.lerp_(other_BASD.to(o_BASD.dtype), (other_lse_BAS - total_BAS).exp().unsqueeze(-1))
    lse_BAS.copy_(total_BAS)


class Attended:
    """o and lse of queries over the keys of the tiles seen so far. `see` adds more keys."""

    def __init__(self, q_BASD: Tensor) -> None:
        self.q, self.dtype = q_BASD, torch.promote_types(q_BASD.dtype, torch.float32)
        self.seen: tuple[Tensor, Tensor] | None = None

    def see(self, block_kv: Iterable[Tensor], tiles: Iterable[Tile]) -> None:
        """Attend to the tiles of one block: its keys and values, each [B, K, T, D]."""
        k_BKTD, v_BKTD = block_kv
        for tile in suited(tiles, self.q.device):
            self._see(tile, k_BKTD, v_BKTD)

    def _see(self, tile: Tile, k_BKTD: Tensor, v_BKTD: Tensor) -> None:
        batch, rows, keys, causal = tile
        o, lse = block(self.q[batch, :, rows], k_BKTD[batch, :, keys], v_BKTD[batch, :, keys], causal=causal)
        if self.seen is None and o.shape == self.q.shape:  # the first tile has all queries
            self.seen = o, lse
            return
        total, total_lse = self.seen or self._nothing()
        total, total_lse = self.seen = total.to(self.dtype), total_lse.to(self.dtype)
        merge(total[batch, :, rows], total_lse[batch, :, rows], o, lse)

    def result(self) -> tuple[Tensor, Tensor]:
        """o in the dtype of q, and lse."""
        o, lse = self.seen or self._nothing()
        return o.to(self.q.dtype), lse.to(self.dtype)

    def _nothing(self) -> tuple[Tensor, Tensor]:
        o = torch.zeros_like(self.q, dtype=self.dtype)
        return o, o.new_full(self.q.shape[:3], -torch.inf)


class Gradients:
    """Gradients of q, and of the keys and values of one block at a time, computed from o and lse of the whole rows."""

    def __init__(self, do_BASD: Tensor, q_BASD: Tensor, o_BASD: Tensor, lse_BAS: Tensor) -> None:
        self.do, self.q, self.o, self.lse = do_BASD, q_BASD, o_BASD, lse_BAS
        self.dtype = torch.promote_types(q_BASD.dtype, torch.float32)
        self._dq_BASD: Tensor | None = None

    def of(self, block_kv: Iterable[Tensor], tiles: Iterable[Tile]) -> Tensor:
        """dk and dv [2, B, K, T, D] of a block. Also adds the block's contribution to dq."""
        k_BKTD, v_BKTD = block_kv
        total = k_BKTD.new_zeros(2, *k_BKTD.shape, dtype=self.dtype)
        self.add(total, (k_BKTD, v_BKTD), tiles)
        return total

    def add(self, total: Tensor, block_kv: Iterable[Tensor], tiles: Iterable[Tile]) -> None:
        """Add dk and dv of a block to `total` [2, B, K, T, D] in place, and the block's contribution to dq."""
        k_BKTD, v_BKTD = block_kv
        dk_BKTD, dv_BKTD = total
        for batch, rows, keys, causal in suited(tiles, self.q.device, STRIP):
            do, q, o, lse = (one[batch, :, rows] for one in (self.do, self.q, self.o, self.lse))
            k, v = k_BKTD[batch, :, keys], v_BKTD[batch, :, keys]
            dq, dk, dv = block_backward(do, q, k, v, o, lse, causal=causal)
            self._add_to_dq(dq, batch, rows)
            dk_BKTD[batch, :, keys].add_(dk)
            dv_BKTD[batch, :, keys].add_(dv)

    def _add_to_dq(self, dq: Tensor, batch: slice, rows: slice) -> None:
        if self._dq_BASD is None and dq.shape == self.q.shape:  # the first tile has all queries
            self._dq_BASD = dq.to(self.dtype)
            return
        if self._dq_BASD is None:
            self._dq_BASD = torch.zeros_like(self.q, dtype=self.dtype)
        self._dq_BASD[batch, :, rows].add_(dq)

    @property
    def dq(self) -> Tensor:
        """In the dtype of q."""
        return torch.zeros_like(self.q) if self._dq_BASD is None else self._dq_BASD.to(self.q.dtype)


def suited(tiles: Iterable[Tile], device: torch.device, most_keys: int | None = None) -> Iterable[Tile]:
    """Tiles that suit the device's kernel. GPU kernels skip masked keys themselves, so only a CPU needs small tiles."""
    return halved(tiles, most_keys) if device.type == "cpu" else tiles


def attend_here(q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor, mask: Mask) -> Tensor:
    """o_BASD of a whole sequence on one rank: the single-process twin of every method, and the middle of Ulysses."""
    here = tiles(contiguous(q_BASD.shape[2], 1), 0, None, mask)
    return _Local.apply(q_BASD, k_BKSD, v_BKSD, here)


class _Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_BASD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor, here: tuple[Tile, ...]) -> Tensor:
        attended = Attended(q_BASD)
        attended.see((k_BKTD, v_BKTD), here)
        o_BASD, lse_BAS = attended.result()
        ctx.here = here
        ctx.save_for_backward(q_BASD, k_BKTD, v_BKTD, o_BASD, lse_BAS)
        return o_BASD

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q_BASD, k_BKTD, v_BKTD, o_BASD, lse_BAS = ctx.saved_tensors
        if len(ctx.here) == 1 and not q_BASD.is_cpu:  # a GPU kernel takes the whole tile: nothing to add up
            causal = ctx.here[0].causal
            return *block_backward(gradients[0], q_BASD, k_BKTD, v_BKTD, o_BASD, lse_BAS, causal=causal), None
        found = Gradients(gradients[0], q_BASD, o_BASD, lse_BAS)
        dk, dv = found.of((k_BKTD, v_BKTD), ctx.here)
        return found.dq, dk.to(k_BKTD.dtype), dv.to(v_BKTD.dtype), None
