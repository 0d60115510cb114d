"""Sum gradients over tp and between stages, once per step. A rank may hold a whole gradient or a slice of it.

Most gradients are complete once `weights` has summed them over dp and cp, or over edp for experts. Two sums are left:
over tp, where each rank saw a part of the tokens or several ranks use the same key-value head; and between the two
stages of a tied embedding.
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
    """Sum partial gradients over tp, in one all-reduce per dtype. Sends nothing if none are partial."""
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
    """Add the peer's gradient of a weight that both stages hold and split the same way."""
    mine = [gradient_of(one)[one.at : one.at + one.end - one.begin] for one in slices if one.parameter is tied]
    add_tensors(mine, peer, group=group)


def gradient_of(one: MasterShard) -> Tensor:
    """The flattened gradient of the slice's master."""
    assert one.master.grad is not None
    return flat(one.master.grad)
