# %% right_as_taught from="page"
"""Different: as the page solves it."""

import torch
import torch.distributed as dist

# %% chunk_off_by_one of="right_as_taught"
"""Wrong: starts with its own chunk, so rank r ends with chunk r+1."""

# -    partial = chunks[(rank - 1) % size].clone()
# +    partial = chunks[rank].clone()

# -        mine = chunks[(rank - 2 - step) % size]
# +        mine = chunks[(rank - 1 - step) % size]

# %% equal_chunks_only of="right_as_taught"
"""Wrong: receives into a buffer of the first chunk's size, right only when all chunks are equal."""

# -        incoming = torch.empty_like(mine)
# +        incoming = torch.empty_like(chunks[0])

# %% float32_throughout of="right_as_taught"
"""Wrong: adds and sends in float32, twice the bytes of bfloat16 and another dtype out."""

# -    partial = chunks[(rank - 1) % size].clone()
# +    partial = chunks[(rank - 1) % size].float()

# -        mine = chunks[(rank - 2 - step) % size]
# +        mine = chunks[(rank - 2 - step) % size].float()

# %% forgets_the_subgroup of="right_as_taught"
"""Wrong: uses global ranks, right only when the group is the world."""

# -    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    rank, size = dist.get_rank(), dist.get_world_size()

# -        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
# -        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
# +        sending = dist.isend(partial, dst=(rank + 1) % size)
# +        dist.recv(incoming, src=(rank - 1) % size)

# %% returns_a_view of="right_as_taught"
"""Wrong: adds the last message into the caller's chunk and returns that view."""

# -        partial = incoming + mine
# +        partial = incoming + mine if step < size - 2 else mine.add_(incoming)

# %% right_batch
"""Different: every step is one batch_isend_irecv."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    partial = chunks[(rank - 1) % size].clone()
    for step in range(1, size):
        mine = chunks[(rank - 1 - step) % size]
        incoming = torch.empty_like(mine)
        messages = [
            dist.P2POp(dist.isend, partial, group=group, group_peer=(rank + 1) % size),
            dist.P2POp(dist.irecv, incoming, group=group, group_peer=(rank - 1) % size),
        ]
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        partial = mine + incoming
    return partial


# %% right_isend_irecv
"""Different: isend and irecv into two buffers that take turns."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    outgoing = torch.clone(chunks[left])
    for index in ((left - 1 - step) % size for step in range(size - 1)):
        incoming = torch.zeros_like(chunks[index])
        receiving = dist.irecv(incoming, group_src=left, group=group)
        sending = dist.isend(outgoing, group_dst=right, group=group)
        receiving.wait()
        sending.wait()
        incoming.add_(chunks[index])
        outgoing = incoming
    return outgoing


# %% right_recursion
"""Different: a step calls the next one instead of a loop."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)

    def pass_on(partial, index):
        if index == rank:
            return partial
        mine = chunks[(index - 1) % size]
        incoming = torch.empty_like(mine)
        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        return pass_on(incoming + mine, (index - 1) % size)

    first = (rank - 1) % size
    return pass_on(chunks[first].clone(), first)


# %% right_rotated_copies
"""Different: copies all chunks, turned round so that its own comes last, and adds into the copies."""

from itertools import pairwise

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    turned = [chunks[(rank - 1 - position) % size].clone() for position in range(size)]
    for outgoing, total in pairwise(turned):
        incoming = torch.empty_like(total)
        sending = dist.isend(outgoing, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        total.add_(incoming)
    return turned[-1]


# %% calls_all_reduce
"""Wrong: all-reduces the whole tensor and keeps one chunk, twice the bytes and a library call."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    totals = torch.cat(list(chunks))
    dist.all_reduce(totals, group=group)
    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()


# %% adds_into_its_input of="calls_all_reduce"
"""Wrong: adds every message into the caller's chunks."""

# -    totals = torch.cat(list(chunks))
# -    dist.all_reduce(totals, group=group)
# -    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    for step in range(size - 1):
# +        mine = chunks[(rank - 2 - step) % size]
# +        incoming = torch.empty_like(mine)
# +        sending = dist.isend(chunks[(rank - 1 - step) % size], group_dst=(rank + 1) % size, group=group)
# +        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
# +        sending.wait()
# +        mine += incoming
# +    return chunks[rank].clone()

# %% all_gather_then_sum of="calls_all_reduce"
"""Wrong: gathers every tensor and adds locally, right answer and N times the bytes."""

# -    totals = torch.cat(list(chunks))
# -    dist.all_reduce(totals, group=group)
# -    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    flat = torch.cat(list(chunks))
# +    everyone = [torch.empty_like(flat) for _ in range(size)]
# +    dist.all_gather(everyone, flat, group=group)
# +    begin = sum(chunk.numel() for chunk in chunks[:rank])
# +    return sum(everyone)[begin : begin + chunks[rank].numel()].clone()

# %% calls_reduce_scatter of="calls_all_reduce"
"""Wrong: lets the library do it, the exercise asks for send and receive."""

# -    totals = torch.cat(list(chunks))
# -    dist.all_reduce(totals, group=group)
# -    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()
# +    mine = torch.empty_like(chunks[dist.get_rank(group)])
# +    dist.reduce_scatter(mine, [chunk.clone() for chunk in chunks], group=group)
# +    return mine

# %% gather_to_zero_and_scatter of="calls_all_reduce"
"""Wrong: everything goes through rank 0, right answer and a jam at rank 0."""

# -    totals = torch.cat(list(chunks))
# -    dist.all_reduce(totals, group=group)
# -    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    if rank != 0:
# +        mine = torch.empty_like(chunks[rank])
# +        for chunk in chunks:
# +            dist.send(chunk.contiguous(), group_dst=0, group=group)
# +        dist.recv(mine, group_src=0, group=group)
# +        return mine
# +    totals = [chunk.clone() for chunk in chunks]
# +    for source in range(1, size):
# +        for index, chunk in enumerate(chunks):
# +            part = torch.empty_like(chunk)
# +            dist.recv(part, group_src=source, group=group)
# +            totals[index] += part
# +    for target in range(1, size):
# +        dist.send(totals[target], group_dst=target, group=group)
# +    return totals[0]

# %% overwrites_before_wait of="calls_all_reduce"
"""Wrong: overwrites the buffer that is still being sent."""

# -    totals = torch.cat(list(chunks))
# -    dist.all_reduce(totals, group=group)
# -    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    buffer = torch.empty(max(chunk.numel() for chunk in chunks), dtype=chunks[0].dtype)
# +    partial = buffer[: chunks[rank - 1].numel()].copy_(chunks[rank - 1])
# +    for step in range(size - 1):
# +        mine = chunks[(rank - 2 - step) % size]
# +        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
# +        partial = buffer[: mine.numel()].copy_(mine)
# +        incoming = torch.empty_like(mine)
# +        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
# +        sending.wait()
# +        partial += incoming
# +    return partial.clone()

# %% sends_whole_tensors of="calls_all_reduce"
"""Wrong: the whole tensor goes round the ring, right answer and N times the bytes."""

# -    totals = torch.cat(list(chunks))
# -    dist.all_reduce(totals, group=group)
# -    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    passing = torch.cat(list(chunks))
# +    total = passing.clone()
# +    for _ in range(size - 1):
# +        incoming = torch.empty_like(passing)
# +        sending = dist.isend(passing, group_dst=(rank + 1) % size, group=group)
# +        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
# +        sending.wait()
# +        total += incoming
# +        passing = incoming
# +    return total.split([chunk.numel() for chunk in chunks])[rank].clone()

# %% two_ranks_only of="calls_all_reduce"
"""Wrong: one exchange of two chunks, right for 2 ranks only."""

# -    totals = torch.cat(list(chunks))
# -    dist.all_reduce(totals, group=group)
# -    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    incoming = torch.empty_like(chunks[rank])
# +    sending = dist.isend(chunks[(rank + 1) % size], group_dst=(rank + 1) % size, group=group)
# +    dist.recv(incoming, group_src=(rank - 1) % size, group=group)
# +    sending.wait()
# +    return incoming + chunks[rank]
