# %% right_four_rings
"""Different: the all-reduce across nodes is written out as its two halves."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    partial = chunks[(rank - 1) % size].clone()
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        partial = incoming + mine
    return partial


def ring_all_gather(chunk, sizes, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    gathered = [chunk.new_empty(num) for num in sizes]
    gathered[rank] = chunk.clone()
    for step in range(size - 1):
        sending = dist.isend(gathered[(rank - step) % size], group_dst=(rank + 1) % size, group=group)
        dist.recv(gathered[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
        sending.wait()
    return gathered


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    chunks = tensor.reshape(-1).tensor_split(dist.get_world_size(node_group))
    mine = ring_reduce_scatter(chunks, group=node_group)
    pieces = mine.tensor_split(dist.get_world_size(cross_group))
    piece = ring_reduce_scatter(pieces, group=cross_group)
    mine = torch.cat(ring_all_gather(piece, [len(part) for part in pieces], group=cross_group))
    return torch.cat(ring_all_gather(mine, [len(chunk) for chunk in chunks], group=node_group)).reshape_as(tensor)


# %% forgets_the_other_node of="right_four_rings"
"""Wrong: three phases, but the middle one adds the chunk to itself instead of the other node's."""

# -    chunks = tensor.reshape(-1).tensor_split(dist.get_world_size(node_group))
# -    mine = ring_reduce_scatter(chunks, group=node_group)
# -    pieces = mine.tensor_split(dist.get_world_size(cross_group))
# -    piece = ring_reduce_scatter(pieces, group=cross_group)
# -    mine = torch.cat(ring_all_gather(piece, [len(part) for part in pieces], group=cross_group))
# -    return torch.cat(ring_all_gather(mine, [len(chunk) for chunk in chunks], group=node_group)).reshape_as(tensor)
# +    chunks = tensor.flatten().tensor_split(dist.get_world_size(node_group))
# +    finished = ring_reduce_scatter(chunks, group=node_group) * dist.get_world_size(cross_group)
# +    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=node_group)
# +    return torch.cat(gathered).view(tensor.shape)

# %% right_library_collectives
"""Different: the library's collectives on a padded tensor, one for each of the three phases."""

import torch
import torch.distributed as dist


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    size = dist.get_world_size(node_group)
    flat = torch.nn.functional.pad(tensor.flatten(), (0, -tensor.numel() % size))
    mine = flat.new_empty(flat.numel() // size)
    dist.reduce_scatter_tensor(mine, flat, group=node_group)
    dist.all_reduce(mine, group=cross_group)
    total = torch.empty_like(flat)
    dist.all_gather_into_tensor(total, mine, group=node_group)
    return total[: tensor.numel()].view(tensor.shape).clone()


# %% right_pairs
"""Different: direct messages instead of rings, every rank sends each other rank of its group what that one needs."""

import torch
import torch.distributed as dist


def swap(outgoing, like, group):
    """Send outgoing[r] to rank r of the group; return what each rank sent, shaped like like[r]."""
    rank = dist.get_rank(group)
    incoming = [torch.empty_like(tensor) for tensor in like]
    incoming[rank] = outgoing[rank].clone()
    others = [other for other in range(len(like)) if other != rank]
    works = [dist.isend(outgoing[other].contiguous(), group_dst=other, group=group) for other in others]
    works += [dist.irecv(incoming[other], group_src=other, group=group) for other in others]
    for work in works:
        work.wait()
    return incoming


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    flat, places = tensor.flatten().clone(), dist.get_world_size(node_group)
    chunks = list(flat.tensor_split(places))
    rank = dist.get_rank(node_group)
    chunks[rank] = sum(swap(chunks, [chunks[rank]] * places, node_group))
    pieces = list(chunks[rank].tensor_split(dist.get_world_size(cross_group)))
    piece = dist.get_rank(cross_group)
    pieces[piece] = sum(swap(pieces, [pieces[piece]] * len(pieces), cross_group))
    chunks[rank] = torch.cat(swap([pieces[piece]] * len(pieces), pieces, cross_group))
    return torch.cat(swap([chunks[rank]] * places, chunks, node_group)).view(tensor.shape)


# %% across_first
"""Wrong: crosses nodes before adding up inside the node, so the whole tensor crosses."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    partial = chunks[(rank - 1) % size].clone()
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        partial = incoming + mine
    return partial


def ring_all_gather(chunk, sizes, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    gathered = [chunk.new_empty(num) for num in sizes]
    gathered[rank] = chunk.clone()
    for step in range(size - 1):
        sending = dist.isend(gathered[(rank - step) % size], group_dst=(rank + 1) % size, group=group)
        dist.recv(gathered[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
        sending.wait()
    return gathered


def ring_all_reduce(tensor, *, group):
    chunks = tensor.flatten().tensor_split(dist.get_world_size(group))
    finished = ring_reduce_scatter(chunks, group=group)
    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group)
    return torch.cat(gathered).view(tensor.shape)


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)


# %% changes_its_input of="across_first"
"""Wrong: right sum, but it is written back into the caller's tensor."""

# -    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)
# +    chunks = tensor.flatten().tensor_split(dist.get_world_size(node_group))
# +    node_sum = ring_reduce_scatter(chunks, group=node_group)
# +    finished = ring_all_reduce(node_sum, group=cross_group)
# +    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=node_group)
# +    return tensor.copy_(torch.cat(gathered).view(tensor.shape))

# %% cross_only of="across_first"
"""Wrong: adds up across nodes and forgets the neighbours in the node."""

# -    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)
# +    return ring_all_reduce(tensor, group=cross_group)

# %% divisible_only of="across_first"
"""Wrong: equal chunks only, the remainder is not reduced."""

# -    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)
# +    size = dist.get_world_size(node_group)
# +    length = tensor.numel() // size
# +    total = tensor.clone().flatten()
# +    node_sum = ring_reduce_scatter(total[: size * length].split(length or 1), group=node_group)
# +    finished = ring_all_reduce(node_sum, group=cross_group)
# +    total[: size * length] = torch.cat(ring_all_gather(finished, [length] * size, group=node_group))
# +    return total.view(tensor.shape)

# %% flat_ring of="across_first"
"""Wrong: one ring over all ranks, right answer and 1.5 S over each crossing link."""

# -    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)
# +    return ring_all_reduce(tensor, group=dist.group.WORLD)

# %% leaders_carry_everything of="across_first"
"""Wrong: the first rank of each node carries the whole tensor across."""

# -    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)
# +    total = tensor.clone()
# +    dist.reduce(total, group_dst=0, group=node_group)
# +    if dist.get_rank(node_group) == 0:
# +        total = ring_all_reduce(total, group=cross_group)
# +    dist.broadcast(total, group_src=0, group=node_group)
# +    return total

# %% loses_the_shape of="across_first"
"""Wrong: returns the sum as one flat row."""

# -    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)
# +    chunks = tensor.flatten().tensor_split(dist.get_world_size(node_group))
# +    node_sum = ring_reduce_scatter(chunks, group=node_group)
# +    finished = ring_all_reduce(node_sum, group=cross_group)
# +    return torch.cat(ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=node_group))

# %% node_only of="across_first"
"""Wrong: never leaves the node."""

# -    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)
# +    return ring_all_reduce(tensor, group=node_group)

# %% whole_tensor_across of="across_first"
"""Wrong: all-reduces inside the node first, so the whole tensor crosses nodes."""

# -    return ring_all_reduce(ring_all_reduce(tensor, group=cross_group), group=node_group)
# +    return ring_all_reduce(ring_all_reduce(tensor, group=node_group), group=cross_group)
