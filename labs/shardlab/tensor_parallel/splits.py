"""The ways to split a module in a plan. In each, `sequence` says whether the ranks also split the sequence."""

from __future__ import annotations

from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.models.model import divisors
from shardlab.model.attention import Attention
from shardlab.model.dropout import Dropout
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from shardlab.tensor_parallel.messages import Group, own_part
from shardlab.tensor_parallel.plan import RandomStreams
from shardlab.tensor_parallel.vocabulary import VocabularyParallelEmbedding, vocabulary_cut

SEQUENCE_DIM = 1  # of activations [B, S, H]


@dataclass(frozen=True)
class Column:
    """Split a linear layer by columns. num_together: number of stacked matrices in it, each split separately."""

    num_together: int = 1
    gather_output: bool = False
    sequence: bool = False

    def applied(self, module: nn.Linear, group: Group, streams: RandomStreams) -> ColumnParallelLinear:
        cut = Cut((module.out_features // self.num_together,) * self.num_together)
        dim = SEQUENCE_DIM if self.sequence else None
        return ColumnParallelLinear(module, group=group, cut=cut, gather_output=self.gather_output, sequence_dim=dim)


@dataclass(frozen=True)
class Row:
    """Split a linear layer by rows."""

    sequence: bool = False

    def applied(self, module: nn.Linear, group: Group, streams: RandomStreams) -> RowParallelLinear:
        return RowParallelLinear(module, group=group, sequence_dim=SEQUENCE_DIM if self.sequence else None)


@dataclass(frozen=True)
class Heads:
    """Split attention by heads: queries, keys and values by columns, the projection by rows.

    If there are fewer key-value heads than ranks, neighboring ranks share one. Raises ValueError, listing valid numbers
    of ranks, if the ranks do not divide the heads, or if neither ranks nor key-value heads divide the other.
    """

    sequence: bool = False

    def applied(self, module: Attention, group: Group, streams: RandomStreams) -> Attention:
        size = dist.get_world_size(group)
        heads, kv_heads = module.heads, module.kv_heads
        fits = [ranks for ranks in divisors(heads) if kv_heads % ranks == 0 or ranks % kv_heads == 0]
        if size not in fits:
            shared = "" if kv_heads == heads else f" and {kv_heads} key-value heads"
            raise ValueError(
                f"{heads} heads{shared} cannot be split over {size} ranks: use a tensor-parallel size among {fits}"
            )
        dim = SEQUENCE_DIM if self.sequence else None
        cut = Cut(module.sections, units=(heads, kv_heads, kv_heads))
        module.qkv = ColumnParallelLinear(module.qkv, group=group, cut=cut, sequence_dim=dim)  # type: ignore[assignment]
        module.out = RowParallelLinear(module.out, group=group, sequence_dim=dim)  # type: ignore[assignment]
        module.heads, module.kv_heads = heads // size, max(1, kv_heads // size)
        module.core.dropout.generator = streams.split
        return module


@dataclass(frozen=True)
class Vocabulary:
    """Split an embedding by rows, or a head by columns, padded until the ranks divide the vocabulary."""

    gather_output: bool = False
    sequence: bool = False

    def applied(self, module: nn.Module, group: Group, streams: RandomStreams) -> nn.Module:
        dim = SEQUENCE_DIM if self.sequence else None
        if isinstance(module, nn.Embedding):
            return VocabularyParallelEmbedding(module, group=group, sequence_dim=dim)
        assert isinstance(module, nn.Linear)
        cut = vocabulary_cut(module.out_features)
        return ColumnParallelLinear(module, group=group, cut=cut, gather_output=self.gather_output, sequence_dim=dim)


@dataclass(frozen=True)
class OnPartOfSequence:
    """Mark a module that works token by token, such as a norm: it is whole, but this rank sees a part of the tokens."""

    def applied(self, module: nn.Module, group: Group, streams: RandomStreams) -> nn.Module:
        module.partial = tuple(name for name, _ in module.named_parameters())  # type: ignore[assignment]
        return module


@dataclass(frozen=True)
class Positions:
    """A position embedding [S, H], of which each rank uses its part of the sequence."""

    def applied(self, module: nn.Embedding, group: Group, streams: RandomStreams) -> PositionsOfPart:
        return PositionsOfPart(module, group)


class PositionsOfPart(nn.Module):
    """Positions of this rank's part of the sequence. Other rows get no gradient here, so the gradient is partial."""

    partial = ("weight",)

    def __init__(self, whole: nn.Embedding, group: Group) -> None:
        super().__init__()
        self.weight, self.group = whole.weight, group

    def forward(self, positions_S: Tensor) -> Tensor:
        return self.weight[own_part(positions_S, 0, group=self.group)]


@dataclass(frozen=True)
class Random:
    """A dropout: ranks draw different masks if they split the sequence, and the same mask otherwise."""

    sequence: bool = False

    def applied(self, module: Dropout, group: Group, streams: RandomStreams) -> Dropout:
        module.generator = streams.split if self.sequence else streams.replicated
        return module
