# %% right_device_mesh
"""Different: torch's DeviceMesh makes the groups."""

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def sum_on_each_axis(number, sizes):
    names = tuple(reversed(sizes))
    mesh = init_device_mesh("cpu", tuple(sizes[name] for name in names), mesh_dim_names=names)
    sums = {name: number.clone() for name in sizes}
    for name, total in sums.items():
        dist.all_reduce(total, group=mesh.get_group(name))
    return sums


# %% right_enumeration
"""Different: torch goes through the list; numbers instead of tensors."""

import math

import torch.distributed as dist


def coordinates(rank, sizes):
    places = {}
    for name, size in sizes.items():
        rank, places[name] = divmod(rank, size)
    return places


def groups(axes, sizes):
    found = {}
    for rank in range(math.prod(sizes.values())):
        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
        found.setdefault(others, []).append(rank)
    return list(found.values())


def sum_on_each_axis(number, sizes):
    sums = {}
    for name in sorted(sizes):
        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
        total = number.clone()
        dist.all_reduce(total, group=group)
        sums[name] = total.item()
    return sums


# %% adds_up_itself of="right_enumeration"
"""Wrong: guesses what the others hold; nothing is sent."""

# -    sums = {}
# -    for name in sorted(sizes):
# -        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
# -        total = number.clone()
# -        dist.all_reduce(total, group=group)
# -        sums[name] = total.item()
# -    return sums
# +    rank = dist.get_rank()
# +    mine = {name: next(group for group in groups([name], sizes) if rank in group) for name in sizes}
# +    return {name: number.item() + sum(2.0**other for other in group if other != rank) for name, group in mine.items()}

# %% changes_its_input of="right_enumeration"
"""Wrong: adds up in the caller's tensor."""

# -    for name in sorted(sizes):
# +    for name in sizes:

# -        total = number.clone()
# -        dist.all_reduce(total, group=group)
# -        sums[name] = total.item()
# +        before = number.clone()
# +        dist.all_reduce(number, group=group)
# +        sums[name] = number.clone()
# +        number.copy_(before if name != list(sizes)[-1] else number)

# %% last_axis_alone of="right_enumeration"
"""Wrong: one group for all axes, the last that it was in."""

#  def sum_on_each_axis(number, sizes):
# +    for name in sizes:
# +        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))

# -    for name in sorted(sizes):
# -        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
# -        total = number.clone()
# -        dist.all_reduce(total, group=group)
# -        sums[name] = total.item()
# +    for name in sizes:
# +        sums[name] = number.clone()
# +        dist.all_reduce(sums[name], group=group)

# %% no_sum of="right_enumeration"
"""Wrong: makes every group in order and forgets to use them."""

# -    sums = {}
# -    for name in sorted(sizes):
# -        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
# -        total = number.clone()
# -        dist.all_reduce(total, group=group)
# -        sums[name] = total.item()
# -    return sums
# +    for name in sizes:
# +        dist.new_subgroups_by_enumeration(groups([name], sizes))
# +    return {name: number.clone() for name in sizes}

# %% odd_ranks_backwards of="right_enumeration"
"""Wrong: odd ranks go through the axes from the other end."""

# -    sums = {}
# -    for name in sorted(sizes):
# -        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
# -        total = number.clone()
# -        dist.all_reduce(total, group=group)
# -        sums[name] = total.item()
# +    sums, rank = {}, dist.get_rank()
# +    for name in list(sizes) if rank % 2 == 0 else list(reversed(sizes)):
# +        for members in groups([name], sizes):
# +            made = dist.new_group(members)
# +            if rank in members:
# +                sums[name] = number.clone()
# +                dist.all_reduce(sums[name], group=made)

# %% order_of_a_set of="right_enumeration"
"""Wrong: the order of a set of names, which differs from process to process."""

#  import math
# +import zlib

# -    sums = {}
# -    for name in sorted(sizes):
# -        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
# -        total = number.clone()
# -        dist.all_reduce(total, group=group)
# -        sums[name] = total.item()
# +    sums, rank = {}, dist.get_rank()
# +    names = sorted(sizes, key=lambda name: zlib.crc32(f"{name} {rank}".encode()))  # as a set's, and the same each time
# +    for name in names:
# +        for members in groups([name], sizes):
# +            made = dist.new_group(members)
# +            if rank in members:
# +                sums[name] = number.clone()
# +                dist.all_reduce(sums[name], group=made)

# %% own_group_first of="right_enumeration"
"""Wrong: every rank begins with its own group."""

# -    sums = {}
# -    for name in sorted(sizes):
# -        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
# -        total = number.clone()
# -        dist.all_reduce(total, group=group)
# -        sums[name] = total.item()
# +    sums, rank = {}, dist.get_rank()
# +    for name in sizes:
# +        for members in sorted(groups([name], sizes), key=lambda members: rank not in members):
# +            made = dist.new_group(members)
# +            if rank in members:
# +                sums[name] = number.clone()
# +                dist.all_reduce(sums[name], group=made)

# %% own_groups_only of="right_enumeration"
"""Wrong: makes only the groups that it is in; the others wait for it."""

# -    for name in sorted(sizes):
# -        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
# -        total = number.clone()
# -        dist.all_reduce(total, group=group)
# -        sums[name] = total.item()
# +    for name in sizes:
# +        for members in groups([name], sizes):
# +            if dist.get_rank() in members:
# +                sums[name] = number.clone()
# +                dist.all_reduce(sums[name], group=dist.new_group(members))

# %% right_make_then_use
"""Different: makes all groups first, then uses them."""

import math

import torch.distributed as dist


def coordinates(rank, sizes):
    places = {}
    for name, size in sizes.items():
        rank, places[name] = divmod(rank, size)
    return places


def groups(axes, sizes):
    found = {}
    for rank in range(math.prod(sizes.values())):
        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
        found.setdefault(others, []).append(rank)
    return list(found.values())


def sum_on_each_axis(number, sizes):
    mine = {}
    for name in sizes:
        for members in groups([name], sizes):
            made = dist.new_group(members)
            if dist.get_rank() in members:
                mine[name] = made
    sums = {}
    for name, group in mine.items():
        sums[name] = number.clone()
        dist.all_reduce(sums[name], group=group)
    return sums


# %% the_world
"""Wrong: sums over the world on every axis."""

import torch.distributed as dist


def sum_on_each_axis(number, sizes):
    sums = {}
    for name in sizes:
        sums[name] = number.clone()
        dist.all_reduce(sums[name])
    return sums


# %% always_neighbours of="the_world"
"""Wrong: runs of ranks, whatever the axis."""

# -    sums = {}
# -    for name in sizes:
# -        sums[name] = number.clone()
# -        dist.all_reduce(sums[name])
# +    sums, world = {}, dist.get_world_size()
# +    for name, size in sizes.items():
# +        for begin in range(0, world, size):
# +            members = list(range(begin, begin + size))
# +            made = dist.new_group(members)
# +            if dist.get_rank() in members:
# +                sums[name] = number.clone()
# +                dist.all_reduce(sums[name], group=made)

# %% gathers_from_all of="the_world"
"""Wrong: no group is made: all ranks' numbers are gathered, and each rank adds up those that it needs."""

# -    sums = {}
# +    sums, rank = {}, dist.get_rank()
# +    numbers = [number.clone() for _ in range(dist.get_world_size())]
# +    dist.all_gather(numbers, number)

# -        sums[name] = number.clone()
# -        dist.all_reduce(sums[name])
# +        stride = 1
# +        for other, size in sizes.items():
# +            if other == name:
# +                break
# +            stride *= size
# +        first = rank - rank // stride % sizes[name] * stride
# +        sums[name] = sum(numbers[first + place * stride] for place in range(sizes[name]))
