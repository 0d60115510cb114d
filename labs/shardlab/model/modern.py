"""One layer as in Llama: RMSNorm, rotary positions, grouped keys, attention in one kernel, SwiGLU, and no biases.

Shapes: B batch, S sequence, H hidden, A query heads, K key-value heads, D width of a head, F width of the MLP.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from shardlab.costs.models.model import Transformer
from shardlab.model.attention import AttentionCore, turned


class FusedRMSNorm(torch.autograd.Function):
    """x / rms(x) * weight as one kernel (arXiv 1910.07467), which saves x and one float32 per position, 1 / rms(x).

    On CPUs torch composes its own `rms_norm` of small operators, and these save float32 copies of x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        scale = (x.float().square().mean(-1, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(x, weight, scale)
        return (x.float() * scale * weight.float()).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, scale = ctx.saved_tensors
        normed, gradient = x.float() * scale, gradient.float()
        of_weight = (gradient * normed).flatten(0, -2).sum(0)
        of_normed = gradient * weight.float()
        of_x = scale * (of_normed - normed * (of_normed * normed).mean(-1, keepdim=True))
        return of_x.to(x.dtype), of_weight.to(weight.dtype), None


class RMSNorm(nn.Module):
    """RMSNorm over the last dimension, with a learned weight."""

    def __init__(self, hidden: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x: Tensor) -> Tensor:
        return FusedRMSNorm.apply(x, self.weight, self.eps)


class ModernBlock(nn.Module):
    """The layer, with the sizes of a `Transformer` of the cost model.

    `costs.memory.activations.modern_layer_tensors` lists what it keeps for its backward.
    """

    def __init__(self, sizes: Transformer) -> None:
        super().__init__()
        matrix = partial(nn.Linear, bias=False)
        hidden, ffn, width, kv_width = sizes.hidden, sizes.ffn, sizes.query_width, sizes.kv_width
        self.head_dim = width // sizes.heads
        self.norm_1, self.norm_2 = RMSNorm(hidden), RMSNorm(hidden)
        self.queries, self.keys, self.values = (matrix(hidden, one) for one in (width, kv_width, kv_width))
        self.core, self.out = AttentionCore(dropout=0.0, flash=True), matrix(width, hidden)
        self.gate, self.up, self.down = matrix(hidden, ffn), matrix(hidden, ffn), matrix(ffn, hidden)

    def forward(self, x_BSH: Tensor, cos_SD: Tensor, sin_SD: Tensor) -> Tensor:
        """cos_SD and sin_SD, [S, D/2], are the same for all layers.

        In memory, positions come before heads. The kernel orders its output like the queries; with heads first, the
        projection would need, and save, a copy in another order.
        """
        y_BSH, tables = self.norm_1(x_BSH), (cos_SD.unsqueeze(1), sin_SD.unsqueeze(1))
        projected = (matrix(y_BSH) for matrix in (self.queries, self.keys, self.values))
        q_BSAD, k_BSKD, v_BSKD = (one.unflatten(-1, (-1, self.head_dim)) for one in projected)
        heads = turned(q_BSAD, *tables), turned(k_BSKD, *tables), v_BSKD
        y_BASD = self.core(*(one.transpose(1, 2) for one in heads))
        x_BSH = x_BSH + self.out(y_BASD.transpose(1, 2).flatten(2))
        y_BSH = self.norm_2(x_BSH)
        return x_BSH + self.down(functional.silu(self.gate(y_BSH)) * self.up(y_BSH))
