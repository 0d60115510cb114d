"""A transformer block whose attention and MLP are each a column layer, then a row layer: two all-reduces a direction.

Shapes: B batch, S sequence, H hidden, A heads of this rank, D width of a head.
"""

from __future__ import annotations

import copy

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from shardlab.costs.model import divisors
from shardlab.model.gpt import Attention, Block
from shardlab.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear


class ParallelMLP(nn.Module):
    """up by columns, down by rows: the wide activation between them is cut, and never put together."""

    def __init__(self, up: nn.Linear, down: nn.Linear, *, group: dist.ProcessGroup | None) -> None:
        super().__init__()
        self.up = ColumnParallelLinear(up, group=group)
        self.down = RowParallelLinear(down, group=group)

    def forward(self, x_BSH: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x_BSH)))


class ParallelAttention(nn.Module):
    """Each rank has heads of its own: queries, keys and values by columns, the projection by rows.

    Raises ValueError when the ranks do not divide the heads, with the numbers of ranks that do.
    """

    def __init__(self, whole: Attention, *, group: dist.ProcessGroup | None) -> None:
        super().__init__()
        size = dist.get_world_size(group)
        if whole.heads % size:
            raise ValueError(
                f"{whole.heads} heads cannot be split over {size} ranks: use a tensor-parallel size among "
                f"{divisors(whole.heads)}"
            )
        self.heads = whole.heads // size
        self.qkv = ColumnParallelLinear(whole.qkv, group=group, num_together=3)
        self.out = RowParallelLinear(whole.out, group=group)

    def forward(self, x_BSH: Tensor) -> Tensor:
        q_BASD, k_BASD, v_BASD = self.qkv(x_BSH).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y_BASD = functional.scaled_dot_product_attention(q_BASD, k_BASD, v_BASD, is_causal=True)
        return self.out(y_BASD.transpose(1, 2).flatten(2))


class ParallelBlock(nn.Module):
    """One rank's part of a block. The norms are whole on every rank; so are their gradients, which f has summed."""

    def __init__(self, whole: Block, *, group: dist.ProcessGroup | None) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = copy.deepcopy(whole.norm_1), copy.deepcopy(whole.norm_2)
        self.attention = ParallelAttention(whole.attention, group=group)
        self.mlp = ParallelMLP(whole.up, whole.down, group=group)

    def forward(self, x_BSH: Tensor) -> Tensor:
        x_BSH = x_BSH + self.attention(self.norm_1(x_BSH))
        return x_BSH + self.mlp(self.norm_2(x_BSH))
