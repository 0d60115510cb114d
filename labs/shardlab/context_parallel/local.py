"""Attention of queries and keys on one rank, tile by tile: the computation between the methods' messages."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shardlab.context_parallel.balance import contiguous
from shardlab.context_parallel.kernel import block_backward
from shardlab.context_parallel.mask import Mask, Tile, tiles
from shardlab.context_parallel.online import Attended, Gradients


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
