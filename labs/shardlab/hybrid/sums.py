"""Sums of gradients over tp and between stages, once per step, whether a rank has all of a gradient or a slice.

Most are right as they are: summed over dp and cp, or experts over edp (`weights`). Missing are the ranks of tp where
each has seen a part of the tokens or asks the same key-value head, and the other stage of a tied embedding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.hybrid.weights import MasterShard, flat
from shardlab.pipeline_parallel.shared_weights import add_tensors
from shardlab.tensor_parallel.gradients import PartialShard, Sums


@torch.no_grad()
def sum_partial_slices(
    slices: Iterable[MasterShard], shards: Mapping[nn.Parameter, list[PartialShard]], *, group: dist.ProcessGroup
) -> None:
    """Sum over tp what is partial, in one all-reduce for each dtype; nothing is sent where nothing is."""
    if dist.get_world_size(group) == 1:
        return
    sums = Sums()
    for one in slices:
        for shard in shards.get(one.parameter, ()):
            begin, end = max(one.begin, shard.begin), min(one.end, shard.end)
            if begin < end:
                first = one.at + begin - one.begin
                sums.add(gradient_of(one)[first : first + end - begin], shard.number, shard.count)
    sums.reduce(group=group)


@torch.no_grad()
def sum_tied_slices(slices: Iterable[MasterShard], tied: nn.Parameter, peer: int, *, group: dist.ProcessGroup) -> None:
    """Add this rank's and its peer's gradients of a weight that both stages hold, and have cut alike."""
    mine = [gradient_of(one)[one.at : one.at + one.end - one.begin] for one in slices if one.parameter is tied]
    add_tensors(mine, peer, group=group)


def gradient_of(one: MasterShard) -> Tensor:
    """The flattened gradient of the slice's master."""
    assert one.master.grad is not None
    return flat(one.master.grad)
