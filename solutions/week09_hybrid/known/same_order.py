# %% right_device_mesh
"""Different: torch's DeviceMesh makes the groups."""

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def my_groups(axes, sizes):
    names = tuple(reversed(sizes))
    mesh = init_device_mesh("cpu", tuple(sizes[name] for name in names), mesh_dim_names=names)
    together = {name: mesh[tuple(one for one in names if one in chosen)] for name, chosen in axes.items()}
    return {name: (one if one.ndim == 1 else one._flatten()).get_group() for name, one in together.items()}


def sum_on_each_axis(number, sizes):
    axes, sums = {name: [name] for name in sizes} | {"outer": list(sizes)[1:]}, {}
    for name, group in my_groups(axes, sizes).items():
        sums[name] = number.clone()
        dist.all_reduce(sums[name], group=group)
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


def my_groups(axes, sizes):
    mine = {}
    for name in sorted(axes):
        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
    return mine


def sum_on_each_axis(number, sizes):
    axes, sums = {name: [name] for name in sizes} | {"outer": list(sizes)[1:]}, {}
    for name, group in my_groups(axes, sizes).items():
        sums[name] = number.clone()
        dist.all_reduce(sums[name], group=group)
    return sums


# %% right_make_then_keep
"""Different: makes all groups first, then keeps those with this rank."""

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


def my_groups(axes, sizes):
    every = [(name, members) for name, chosen in axes.items() for members in groups(chosen, sizes)]
    made = [dist.new_group(members) for _, members in every]
    return {name: group for (name, members), group in zip(every, made, strict=True) if dist.get_rank() in members}


def sum_on_each_axis(number, sizes):
    axes, sums = {name: [name] for name in sizes} | {"outer": list(sizes)[1:]}, {}
    for name, group in my_groups(axes, sizes).items():
        sums[name] = number.clone()
        dist.all_reduce(sums[name], group=group)
    return sums


# %% adds_up_itself of="right_enumeration"
"""Wrong: guesses what the others hold; nothing is sent."""

#  def sum_on_each_axis(number, sizes):
# +    rank = dist.get_rank()
# +    wanted = {name: [name] for name in sizes} | {"outer": list(sizes)[1:]}
# +    mine = {name: next(one for one in groups(axes, sizes) if rank in one) for name, axes in wanted.items()}
# +    return {name: number.item() + sum(2.0**other for other in one if other != rank) for name, one in mine.items()}

# %% changes_its_input of="right_enumeration"
"""Wrong: adds up in the caller's tensor."""

# -        sums[name] = number.clone()
# -        dist.all_reduce(sums[name], group=group)
# +        before = number.clone()
# +        dist.all_reduce(number, group=group)
# +        sums[name] = number.clone()
# +        number.copy_(before if name != "tp" else number)

# %% last_axis_alone of="right_enumeration"
"""Wrong: one group for all names, the last that it was in."""

#          mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# -    return mine
# +    return dict.fromkeys(mine, mine[max(axes)])

# %% names_for_axes of="right_enumeration"
"""Wrong: takes each name for an axis, so that several axes together are none."""

# -        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# +        mine[name], _ = dist.new_subgroups_by_enumeration(groups([name], sizes))

# %% no_group_of_one of="right_enumeration"
"""Wrong: makes no group for an axis of one rank, and the caller asks in vain."""

# -        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# +        if all(sizes[axis] > 1 for axis in axes[name]):
# +            mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))

# %% last_of_each of="right_enumeration"
"""Wrong: makes every group in order and returns the last one of each name, whoever is in it."""

# -        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# +        made = [dist.new_group(members) for members in groups(axes[name], sizes)]
# +        mine[name] = made[-1]

# %% odd_ranks_backwards of="right_enumeration"
"""Wrong: odd ranks go through the axes from the other end."""

# -    for name in sorted(axes):
# -        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# +    for name in sorted(axes, reverse=dist.get_rank() % 2 == 1):
# +        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))

# %% order_of_a_set of="right_enumeration"
"""Wrong: the order of a set of names, which differs from process to process."""

#  import math
# +import zlib

# -    for name in sorted(axes):
# +    rank = dist.get_rank()
# +    for name in sorted(axes, key=lambda name: zlib.crc32(f"{name} {rank}".encode())):  # as a set's, but repeatable

# %% own_group_first of="right_enumeration"
"""Wrong: every rank begins with its own group."""

# -        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# +        for members in sorted(groups(axes[name], sizes), key=lambda members: dist.get_rank() not in members):
# +            made = dist.new_group(members)
# +            if dist.get_rank() in members:
# +                mine[name] = made

# %% own_groups_only of="right_enumeration"
"""Wrong: makes only the groups that it is in; the others wait for it."""

# -        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# +        members = next(one for one in groups(axes[name], sizes) if dist.get_rank() in one)
# +        mine[name] = dist.new_group(members)

# %% the_world of="right_enumeration"
"""Wrong: the world on every axis."""

# -    for name in sorted(axes):
# -        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# -    return mine
# +    return dict.fromkeys(axes, dist.group.WORLD)

# %% always_neighbours of="right_enumeration"
"""Wrong: runs of ranks, whatever the axes."""

# -        mine[name], _ = dist.new_subgroups_by_enumeration(groups(axes[name], sizes))
# +        size = math.prod(sizes[axis] for axis in axes[name])
# +        runs = [list(range(begin, begin + size)) for begin in range(0, dist.get_world_size(), size)]
# +        mine[name], _ = dist.new_subgroups_by_enumeration(runs)

# %% gathers_from_all of="right_enumeration"
"""Wrong: no group is made: all ranks' numbers are gathered, and each rank adds up those that it needs."""

#  def sum_on_each_axis(number, sizes):
# +    wanted = {name: [name] for name in sizes} | {"outer": list(sizes)[1:]}
# +    numbers = [number.clone() for _ in range(dist.get_world_size())]
# +    dist.all_gather(numbers, number)
# +    mine = {name: next(x for x in groups(axes, sizes) if dist.get_rank() in x) for name, axes in wanted.items()}
# +    return {name: sum(numbers[member] for member in one) for name, one in mine.items()}
