"""Wrong: gathers exact numbers, four times the bytes."""

import torch.distributed as dist


def quantized_all_gather(shard, block, *, group):
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole
