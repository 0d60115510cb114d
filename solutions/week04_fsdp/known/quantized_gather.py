# %% right_as_taught from="page"
"""Different: as the page solves it."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad

# %% changes_its_input of="right_as_taught"
"""Wrong: rounds the caller's shard in place."""

#      dist.all_gather_single(messages, message, group=group)
# +    shard.copy_(codes * scales.repeat_interleave(block)[:num])

# %% cuts_instead_of_rounding of="right_as_taught"
"""Wrong: rounds towards zero."""

# -    codes = (blocks / scales.clamp(min=1e-38)[:, None]).round().to(torch.int8).view(-1)[:num]
# +    codes = (blocks / scales.clamp(min=1e-38)[:, None]).to(torch.int8).view(-1)[:num]

# %% divides_by_zero of="right_as_taught"
"""Wrong: a block of zeros becomes NaN."""

# -    codes = (blocks / scales.clamp(min=1e-38)[:, None]).round().to(torch.int8).view(-1)[:num]
# +    codes = (blocks / scales[:, None]).round().to(torch.int8).view(-1)[:num]

# -        shards.append(one[:num].view(torch.int8) * scales)
# +        shards.append(torch.where(scales == 0, float("nan"), one[:num].view(torch.int8) * scales))

# %% float64_scales of="right_as_taught"
"""Wrong: eight bytes per block."""

# -    scales = blocks.abs().amax(dim=1) / 127
# +    scales = blocks.abs().amax(dim=1).double() / 127

# -        scales = one[num:].clone().view(torch.float32).repeat_interleave(block)[:num]
# -        shards.append(one[:num].view(torch.int8) * scales)
# +        scales = one[num:].clone().view(torch.float64).repeat_interleave(block)[:num]
# +        shards.append(one[:num].view(torch.int8) * scales.float())

# %% forgets_the_sign of="right_as_taught"
"""Wrong: the scale comes from the largest, not the largest absolute."""

# -    scales = blocks.abs().amax(dim=1) / 127
# +    scales = blocks.amax(dim=1) / 127

# %% forgets_the_subgroup of="right_as_taught"
"""Wrong: gathers over the world."""

# -    size, num = dist.get_world_size(group), len(shard)
# +    size, num = dist.get_world_size(), len(shard)

# -    dist.all_gather_single(messages, message, group=group)
# +    dist.all_gather_single(messages, message)

# %% half_scales of="right_as_taught"
"""Wrong: two bytes per block, and scales that are off."""

# -    message = torch.cat([codes.view(torch.uint8), scales.view(torch.uint8)])
# +    message = torch.cat([codes.view(torch.uint8), scales.half().view(torch.uint8)])

# -        scales = one[num:].clone().view(torch.float32).repeat_interleave(block)[:num]
# +        scales = one[num:].clone().view(torch.float16).float().repeat_interleave(block)[:num]

# %% keeps_its_own_exact of="right_as_taught"
"""Wrong: keeps its own numbers exact, so that ranks differ."""

#          shards.append(one[:num].view(torch.int8) * scales)
# +    shards[dist.get_rank(group)] = shard.clone()

# %% one_scale_for_all of="right_as_taught"
"""Wrong: one scale for the whole shard, sent once per block."""

# -    scales = blocks.abs().amax(dim=1) / 127
# +    scales = (blocks.abs().amax() / 127).repeat(len(blocks))

# %% own_scale_for_all of="right_as_taught"
"""Wrong: decodes every rank's codes with its own scales."""

# -        scales = one[num:].clone().view(torch.float32).repeat_interleave(block)[:num]
# -        shards.append(one[:num].view(torch.int8) * scales)
# +        shards.append(one[:num].view(torch.int8) * scales.repeat_interleave(block)[:num])

# %% scale_by_128 of="right_as_taught"
"""Wrong: the largest number overflows int8."""

# -    scales = blocks.abs().amax(dim=1) / 127
# +    scales = blocks.abs().amax(dim=1) / 128

# %% sends_padding of="right_as_taught"
"""Wrong: sends the padding of the last block."""

# -    codes = (blocks / scales.clamp(min=1e-38)[:, None]).round().to(torch.int8).view(-1)[:num]
# +    codes = (blocks / scales.clamp(min=1e-38)[:, None]).round().to(torch.int8).view(-1)

# -        scales = one[num:].clone().view(torch.float32).repeat_interleave(block)[:num]
# +        scales = one[len(codes) :].clone().view(torch.float32).repeat_interleave(block)[:num]

# %% seven_bits of="right_as_taught"
"""Wrong: uses half of the codes."""

# -    scales = blocks.abs().amax(dim=1) / 127
# +    scales = blocks.abs().amax(dim=1) / 63

# %% two_ranks_only of="right_as_taught"
"""Wrong: talks to one partner."""

# -    messages = message.new_empty(size * len(message))
# -    dist.all_gather_single(messages, message, group=group)
# +    rank = dist.get_rank(group)
# +    other = torch.empty_like(message)
# +    work = dist.isend(message, group_dst=(rank + 1) % size, group=group)
# +    dist.recv(other, group_src=(rank - 1) % size, group=group)
# +    work.wait()
# +    messages = torch.stack([message if r == rank else other for r in range(size)])

# %% whole_blocks_only of="right_as_taught"
"""Wrong: the numbers of the last, shorter block are lost."""

# -    blocks = pad(shard, (0, -num % block)).view(-1, block)
# +    blocks = shard[: num - num % block].view(-1, block)

#      codes = (blocks / scales.clamp(min=1e-38)[:, None]).round().to(torch.int8).view(-1)[:num]
# +    codes = pad(codes, (0, num - len(codes)))

#          scales = one[num:].clone().view(torch.float32).repeat_interleave(block)[:num]
# +        scales = pad(scales, (0, num - len(scales)))

# %% right_rounds_half_up
"""Different: rounds halves up."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def quantized_all_gather(shard, block, *, group):
    size, num = dist.get_world_size(group), len(shard)
    blocks = pad(shard, (0, -num % block)).view(-1, block)
    scales = blocks.abs().amax(dim=1) / 127
    codes = (blocks / scales.clamp(min=1e-38)[:, None]).add(0.5).floor().to(torch.int8).view(-1)[:num]
    message = torch.cat([codes.view(torch.uint8), scales.view(torch.uint8)])
    messages = message.new_empty(size * len(message))
    dist.all_gather_single(messages, message, group=group)
    shards = []
    for one in messages.view(size, -1):
        scales = one[num:].clone().view(torch.float32).repeat_interleave(block)[:num]
        shards.append(one[:num].view(torch.int8) * scales)
    return torch.cat(shards)


# %% right_scales_first
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


# %% right_two_gathers
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


# %% gathers_bfloat16
"""Wrong: bf16, two bytes a number."""

import torch
import torch.distributed as dist


def quantized_all_gather(shard, block, *, group):
    whole = torch.empty(dist.get_world_size(group) * len(shard), dtype=torch.bfloat16)
    dist.all_gather_single(whole, shard.bfloat16(), group=group)
    return whole.float()


# %% gathers_float32
"""Wrong: gathers exact numbers, four times the bytes."""

import torch.distributed as dist


def quantized_all_gather(shard, block, *, group):
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole
