"""Wrong: bf16, two bytes a number."""

import torch
import torch.distributed as dist


def quantized_all_gather(shard, block, *, group):
    whole = torch.empty(dist.get_world_size(group) * len(shard), dtype=torch.bfloat16)
    dist.all_gather_single(whole, shard.bfloat16(), group=group)
    return whole.float()
