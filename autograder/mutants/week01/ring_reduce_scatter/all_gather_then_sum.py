"""Wrong: gathers every tensor and adds locally, right answer and N times the bytes."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    flat = torch.cat(list(chunks))
    everyone = [torch.empty_like(flat) for _ in range(size)]
    dist.all_gather(everyone, flat, group=group)
    begin = sum(chunk.numel() for chunk in chunks[:rank])
    return sum(everyone)[begin : begin + chunks[rank].numel()].clone()
