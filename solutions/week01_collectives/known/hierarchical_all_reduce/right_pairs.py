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
