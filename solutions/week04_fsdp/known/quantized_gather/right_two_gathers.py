"""Different: codes and scales in a gather each, block by block."""

import torch
import torch.distributed as dist


def quantized_all_gather(shard, block, *, group):
    size = dist.get_world_size(group)
    codes, scales = [], []
    for part in shard.split(block):
        scale = part.abs().max() / 127
        scales.append(scale)
        codes.append(torch.zeros_like(part) if scale == 0 else torch.round(part / scale))
    code, scale = torch.cat(codes).to(torch.int8), torch.stack(scales)
    all_codes = [torch.empty_like(code) for _ in range(size)]
    all_scales = [torch.empty_like(scale) for _ in range(size)]
    dist.all_gather(all_codes, code, group=group)
    dist.all_gather(all_scales, scale, group=group)
    return torch.cat(
        [
            part * one
            for mine, ones in zip(all_codes, all_scales, strict=True)
            for part, one in zip(mine.float().split(block), ones, strict=True)
        ]
    )
