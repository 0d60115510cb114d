# %% right_all_children_at_once
"""Different: receives from all children at once, and sends to all of them before it waits."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    distances = [2**level for level in range(size.bit_length()) if 2**level < size]
    parent = [rank - d for d in distances if rank % (2 * d) == d]
    children = [rank + d for d in distances if rank % (2 * d) == 0 and rank + d < size]
    parts = [torch.empty_like(tensor) for _ in children]
    receiving = [dist.irecv(part, group_src=child, group=group) for part, child in zip(parts, children, strict=True)]
    for work in receiving:
        work.wait()
    total = sum(parts, start=tensor.clone())
    for up in parent:
        dist.isend(total, group_dst=up, group=group).wait()
        total = torch.empty_like(total)
        dist.irecv(total, group_src=up, group=group).wait()
    for work in [dist.isend(total, group_dst=child, group=group) for child in reversed(children)]:
        work.wait()
    return total


# %% right_bits
"""Different: parent and children from the bits of the place, one loop up and one list down."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    place, size = dist.get_rank(group), dist.get_world_size(group)
    children, bit = [], 1
    while not place & bit and bit < size:
        if place + bit < size:
            children.append(place + bit)
        bit *= 2
    total = tensor.clone()
    for child in children:
        part = torch.empty_like(total)
        dist.recv(part, group_src=child, group=group)
        total += part
    if place:
        dist.send(total, group_dst=place - bit, group=group)
        dist.recv(total, group_src=place - bit, group=group)
    for child in children[::-1]:
        dist.send(total, group_dst=child, group=group)
    return total


# %% right_recursion
"""Different: one level is an exchange with a partner, and the rest of the tree lies inside of it."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)

    def reduced(total, distance):
        if distance >= size:
            return total
        if rank % (2 * distance) == distance:
            dist.send(total, group_dst=rank - distance, group=group)
            dist.recv(total, group_src=rank - distance, group=group)
            return total
        if rank + distance >= size:
            return reduced(total, 2 * distance)
        arriving = torch.empty_like(total)
        dist.recv(arriving, group_src=rank + distance, group=group)
        total = reduced(total + arriving, 2 * distance)
        dist.send(total, group_dst=rank + distance, group=group)
        return total

    return reduced(tensor.clone(), 1)


# %% nearest_first
"""Wrong: the total goes to the nearest first, so that the rank with the most to pass on waits longest."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    total, arriving = tensor.clone(), torch.empty_like(tensor)
    distances = [2**level for level in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            dist.send(total, group_dst=rank - distance, group=group)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            dist.recv(arriving, group_src=rank + distance, group=group)
            total += arriving
    if rank != 0:
        dist.recv(total, group_src=rank & (rank - 1), group=group)
    for distance in distances[:]:
        if rank % (2 * distance) == 0 and rank + distance < size:
            dist.send(total, group_dst=rank + distance, group=group)
    return total


# %% changes_its_input of="nearest_first"
"""Wrong: right sums, added into the caller's tensor."""

# -    total, arriving = tensor.clone(), torch.empty_like(tensor)
# +    total, arriving = tensor, torch.empty_like(tensor)

# -    for distance in distances[:]:
# +    for distance in reversed(distances):

# %% float32_out of="nearest_first"
"""Wrong: adds and sends in float32."""

# -    total, arriving = tensor.clone(), torch.empty_like(tensor)
# +    total, arriving = tensor.float(), torch.empty_like(tensor.float())

# -    for distance in distances[:]:
# +    for distance in reversed(distances):

# %% forgets_the_group of="nearest_first"
"""Wrong: ranks and messages of the world, whatever group was passed."""

# -    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    group, rank, size = None, dist.get_rank(), dist.get_world_size()

# -    for distance in distances[:]:
# +    for distance in reversed(distances):

# %% mean_for_sum of="nearest_first"
"""Wrong: divides by the number of ranks."""

# -    for distance in distances[:]:
# +    for distance in reversed(distances):

# -    return total
# +    return total / size

# %% powers_of_two_only of="nearest_first"
"""Wrong: each rank believes that it has somebody at every distance."""

# -        elif rank % (2 * distance) == 0 and rank + distance < size:
# +        elif rank % (2 * distance) == 0:

# -    for distance in distances[:]:
# +    for distance in reversed(distances):

# %% only_rank_zero
"""Wrong: the sum goes up and stays there; the other ranks return what they had."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    total, arriving = tensor.clone(), torch.empty_like(tensor)
    distances = [2**level for level in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            dist.send(total, group_dst=rank - distance, group=group)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            dist.recv(arriving, group_src=rank + distance, group=group)
            total += arriving
    return total


# %% calls_all_reduce of="only_rank_zero"
"""Wrong: the library does the all-reduce."""

#              total += arriving
# +    total = tensor.clone()
# +    dist.all_reduce(total, group=group)

# %% calls_broadcast of="only_rank_zero"
"""Wrong: up its own tree, down by the library's broadcast."""

#              total += arriving
# +    dist.broadcast(total, group_src=0, group=group)

# %% star
"""Wrong: everybody sends to the first rank, which adds and sends to everybody: as many messages, N-1 steps each way."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    total, arriving = tensor.clone(), torch.empty_like(tensor)
    if rank != 0:
        dist.send(total, group_dst=0, group=group)
        dist.recv(total, group_src=0, group=group)
        return total
    for source in range(1, size):
        dist.recv(arriving, group_src=source, group=group)
        total += arriving
    for target in reversed(range(1, size)):
        dist.send(total, group_dst=target, group=group)
    return total


# %% chain of="star"
"""Wrong: the sum passes along a chain of all ranks and comes back: as many messages, N-1 steps up and N-1 down."""

#      total, arriving = tensor.clone(), torch.empty_like(tensor)
# +    if rank + 1 < size:
# +        dist.recv(arriving, group_src=rank + 1, group=group)
# +        total += arriving

# -        dist.send(total, group_dst=0, group=group)
# -        dist.recv(total, group_src=0, group=group)
# -        return total
# -    for source in range(1, size):
# -        dist.recv(arriving, group_src=source, group=group)
# -        total += arriving
# -    for target in reversed(range(1, size)):
# -        dist.send(total, group_dst=target, group=group)
# +        dist.send(total, group_dst=rank - 1, group=group)
# +        dist.recv(total, group_src=rank - 1, group=group)
# +    if rank + 1 < size:
# +        dist.send(total, group_dst=rank + 1, group=group)

# %% doubling of="star"
"""Wrong: at each distance both partners send: fewer steps, N log N messages, and right for powers of two alone."""

# -    if rank != 0:
# -        dist.send(total, group_dst=0, group=group)
# -        dist.recv(total, group_src=0, group=group)
# -        return total
# -    for source in range(1, size):
# -        dist.recv(arriving, group_src=source, group=group)
# -        total += arriving
# -    for target in reversed(range(1, size)):
# -        dist.send(total, group_dst=target, group=group)
# +    for level in range((size - 1).bit_length()):
# +        partner = rank ^ 2**level
# +        if partner < size:
# +            sending = dist.isend(total, group_dst=partner, group=group)
# +            dist.recv(arriving, group_src=partner, group=group)
# +            sending.wait()
# +            total = total + arriving

# %% two_halves of="star"
"""Wrong: right, but every message goes in two parts: twice α for the same bytes."""

# -    if rank != 0:
# -        dist.send(total, group_dst=0, group=group)
# -        dist.recv(total, group_src=0, group=group)
# -        return total
# -    for source in range(1, size):
# -        dist.recv(arriving, group_src=source, group=group)
# -        total += arriving
# -    for target in reversed(range(1, size)):
# -        dist.send(total, group_dst=target, group=group)
# +    distances = [2**level for level in range((size - 1).bit_length())]
# +    shape = total.shape
# +    parts, coming = total.flatten().tensor_split(2), arriving.flatten().tensor_split(2)
# +    for distance in distances:
# +        for part, other in zip(parts, coming, strict=True):
# +            if rank % (2 * distance) == distance:
# +                dist.send(part, group_dst=rank - distance, group=group)
# +            elif rank % (2 * distance) == 0 and rank + distance < size:
# +                dist.recv(other, group_src=rank + distance, group=group)
# +                part += other
# +    for distance in reversed(distances):
# +        for part in parts:
# +            if rank % (2 * distance) == distance:
# +                dist.recv(part, group_src=rank - distance, group=group)
# +            elif rank % (2 * distance) == 0 and rank + distance < size:
# +                dist.send(part, group_dst=rank + distance, group=group)
# +    total = torch.cat(parts).view(shape)
