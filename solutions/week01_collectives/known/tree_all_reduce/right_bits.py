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
