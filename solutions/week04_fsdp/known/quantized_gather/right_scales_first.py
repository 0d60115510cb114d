"""Different: scales in front, codes as they come."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def quantized_all_gather(shard, block, *, group):
    size, num = dist.get_world_size(group), len(shard)
    blocks = pad(shard, (0, -num % block)).view(-1, block)
    scales = blocks.abs().amax(dim=1) / 127
    codes = (blocks / scales.clamp(min=1e-38)[:, None]).round().to(torch.int8).view(-1)[:num]
    message = torch.cat([scales.view(torch.uint8), codes.view(torch.uint8)])
    messages = message.new_empty(size * len(message))
    dist.all_gather_single(messages, message, group=group)
    shards = []
    for one in messages.view(size, -1):
        scales = one[:-num].clone().view(torch.float32).repeat_interleave(block)[:num]
        shards.append(one[-num:].view(torch.int8) * scales)
    return torch.cat(shards)
