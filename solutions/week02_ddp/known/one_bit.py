# %% right_bits_by_shifts
"""Different: signs packed by shifts, two messages, everything stacked at the end."""

import torch
import torch.distributed as dist


def one_bit_mean(gradient, *, group):
    size, num = dist.get_world_size(group), gradient.numel()
    below = gradient < 0
    up = gradient[~below].mean() if (~below).any() else gradient.new_zeros(())
    down = gradient[below].mean() if below.any() else gradient.new_zeros(())
    bits = torch.zeros(-(-num // 8) * 8, dtype=torch.uint8)
    bits[:num] = below
    packed = torch.zeros(len(bits) // 8, dtype=torch.uint8)
    for place in range(8):
        packed |= bits[place::8] << place
    all_packed = packed.new_empty(size * len(packed))
    all_means = gradient.new_empty(2 * size)
    dist.all_gather_single(all_packed, packed, group=group)
    dist.all_gather_single(all_means, torch.stack([up, down]), group=group)
    rebuilt = []
    for one, (high, low) in zip(all_packed.view(size, -1), all_means.view(size, 2), strict=True):
        signs = torch.stack([(one >> place) & 1 for place in range(8)], 1).flatten()[:num]
        rebuilt.append(torch.where(signs.bool(), low, high))
    return torch.stack(rebuilt).mean(0)


# %% right_numpy
"""Different: numpy packs the bits, each rank sends its message to each other rank."""

import numpy as np
import torch
import torch.distributed as dist


def one_bit_mean(gradient, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    positive = gradient.numpy() >= 0
    sums = [float(gradient.numpy()[chosen].sum()) / max(1, chosen.sum()) for chosen in (positive, ~positive)]
    packed = np.concatenate([np.array(sums, dtype=np.float32).view(np.uint8), np.packbits(positive)])
    mine = torch.from_numpy(packed)
    messages = [mine if other == rank else torch.empty_like(mine) for other in range(size)]
    works = [dist.isend(mine, group_dst=other, group=group) for other in range(size) if other != rank]
    works += [dist.irecv(messages[other], group_src=other, group=group) for other in range(size) if other != rank]
    for work in works:
        work.wait()
    mean = np.zeros(len(gradient), dtype=np.float32)
    for message in messages:
        up, down = message.numpy()[:8].view(np.float32)
        mean += np.where(np.unpackbits(message.numpy()[8:], count=len(gradient)) == 1, up, down) / np.float32(size)
    return torch.from_numpy(mean)


# %% a_byte_per_sign
"""Wrong: a byte for each sign, eight times the bytes."""

import torch
import torch.distributed as dist


def one_bit_mean(gradient, *, group):
    positive = gradient >= 0
    means = torch.stack([gradient[chosen].sum() / chosen.sum().clamp(min=1) for chosen in (positive, ~positive)])
    signs = positive.to(torch.uint8)
    message = torch.cat([means.view(torch.uint8), signs])
    messages = [torch.empty_like(message) for _ in range(dist.get_world_size(group))]
    dist.all_gather(messages, message, group=group)
    total = torch.zeros_like(gradient)
    for one in messages:
        up, down = one[:8].view(torch.float32)
        theirs = one[8:].bool()
        total += torch.where(theirs, up, down)
    return total / len(messages)


# %% sum_for_mean
"""Wrong: the sum of what the ranks send."""

import torch
import torch.distributed as dist


def one_bit_mean(gradient, *, group):
    positive, powers = gradient >= 0, 2 ** torch.arange(8)
    means = torch.stack([gradient[chosen].sum() / chosen.sum().clamp(min=1) for chosen in (positive, ~positive)])
    filled_up = torch.nn.functional.pad(positive.int(), (0, -len(gradient) % 8))
    signs = (filled_up.view(-1, 8) * powers).sum(1).to(torch.uint8)
    message = torch.cat([means.view(torch.uint8), signs])
    messages = [torch.empty_like(message) for _ in range(dist.get_world_size(group))]
    dist.all_gather(messages, message, group=group)
    total = torch.zeros_like(gradient)
    for one in messages:
        up, down = one[:8].view(torch.float32)
        theirs = ((one[8:, None] & powers) != 0).flatten()[: len(gradient)]
        total += torch.where(theirs, up, down)
    return total


# %% bf16_means of="sum_for_mean"
"""Wrong: means in bfloat16: four bytes fewer, other numbers."""

#      signs = (filled_up.view(-1, 8) * powers).sum(1).to(torch.uint8)
# +    means = means.bfloat16().float()

# -    return total
# +    return total / len(messages)

# %% changes_its_input of="sum_for_mean"
"""Wrong: writes the mean into the caller's gradient."""

# -    return total
# +    return gradient.copy_(total / len(messages))

# %% dense of="sum_for_mean"
"""Wrong: right means, of numbers sent whole."""

# -    filled_up = torch.nn.functional.pad(positive.int(), (0, -len(gradient) % 8))
# -    signs = (filled_up.view(-1, 8) * powers).sum(1).to(torch.uint8)
# -    message = torch.cat([means.view(torch.uint8), signs])
# +    message = torch.where(positive, means[0], means[1])

# -        up, down = one[:8].view(torch.float32)
# -        theirs = ((one[8:, None] & powers) != 0).flatten()[: len(gradient)]
# -        total += torch.where(theirs, up, down)
# -    return total
# +        total += one
# +    return total / len(messages)

# %% divides_by_all of="sum_for_mean"
"""Wrong: either mean is divided by all numbers, not by those of its sign."""

# -    means = torch.stack([gradient[chosen].sum() / chosen.sum().clamp(min=1) for chosen in (positive, ~positive)])
# +    means = torch.stack([gradient[chosen].sum() / len(gradient) for chosen in (positive, ~positive)])

# -    return total
# +    return total / len(messages)

# %% divisible_only of="sum_for_mean"
"""Wrong: the last signs, which do not fill a byte, are dropped."""

# -    filled_up = torch.nn.functional.pad(positive.int(), (0, -len(gradient) % 8))
# +    filled_up = positive.int()[: len(gradient) // 8 * 8]

# -        theirs = ((one[8:, None] & powers) != 0).flatten()[: len(gradient)]
# +        theirs = torch.zeros(len(gradient), dtype=torch.bool)
# +        theirs[: len(gradient) // 8 * 8] = ((one[8:, None] & powers) != 0).flatten()

# -    return total
# +    return total / len(messages)

# %% forgets_the_group of="sum_for_mean"
"""Wrong: the default group, and right only where it is the whole world."""

# -    messages = [torch.empty_like(message) for _ in range(dist.get_world_size(group))]
# -    dist.all_gather(messages, message, group=group)
# +    messages = [torch.empty_like(message) for _ in range(dist.get_world_size())]
# +    dist.all_gather(messages, message)

# -    return total
# +    return total / len(messages)

# %% one_magnitude of="sum_for_mean"
"""Wrong: signSGD with a scale: all numbers get the mean of the magnitudes."""

# -    means = torch.stack([gradient[chosen].sum() / chosen.sum().clamp(min=1) for chosen in (positive, ~positive)])
# +    means = gradient.abs().mean() * torch.tensor([1.0, -1.0])

# -    return total
# +    return total / len(messages)

# %% nan_without_a_sign of="sum_for_mean"
"""Wrong: a rank without negative numbers divides 0 by 0."""

# -    means = torch.stack([gradient[chosen].sum() / chosen.sum().clamp(min=1) for chosen in (positive, ~positive)])
# +    means = torch.stack([gradient[chosen].mean() for chosen in (positive, ~positive)])

# -        total += torch.where(theirs, up, down)
# -    return total
# +        total += theirs * up + ~theirs * down
# +    return total / len(messages)

# %% own_means of="sum_for_mean"
"""Wrong: only the signs travel; each rank takes its own means for everybody's."""

# -        up, down = one[:8].view(torch.float32)
# +        up, down = means

# -    return total
# +    return total / len(messages)

# %% sign_of_the_mean of="sum_for_mean"
"""Wrong: averages first, in full, and compresses the mean."""

#  def one_bit_mean(gradient, *, group):
# +    gradient = gradient.clone()
# +    dist.all_reduce(gradient, group=group)
# +    gradient /= dist.get_world_size(group)

# -    return total
# +    return total / len(messages)

# %% zero_is_negative of="sum_for_mean"
"""Wrong: counts 0 among the negative numbers."""

# -    positive, powers = gradient >= 0, 2 ** torch.arange(8)
# +    positive, powers = gradient > 0, 2 ** torch.arange(8)

# -    return total
# +    return total / len(messages)
