"""Wrong: talks to one partner."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def quantized_all_gather(shard, block, *, group):
    size, num = dist.get_world_size(group), len(shard)
    blocks = pad(shard, (0, -num % block)).view(-1, block)
    scales = blocks.abs().amax(dim=1) / 127
    codes = (blocks / scales.clamp(min=1e-38)[:, None]).round().to(torch.int8).view(-1)[:num]
    message = torch.cat([codes.view(torch.uint8), scales.view(torch.uint8)])
    rank = dist.get_rank(group)
    other = torch.empty_like(message)
    work = dist.isend(message, group_dst=(rank + 1) % size, group=group)
    dist.recv(other, group_src=(rank - 1) % size, group=group)
    work.wait()
    messages = torch.stack([message if r == rank else other for r in range(size)])
    shards = []
    for one in messages.view(size, -1):
        scales = one[num:].clone().view(torch.float32).repeat_interleave(block)[:num]
        shards.append(one[:num].view(torch.int8) * scales)
    return torch.cat(shards)
