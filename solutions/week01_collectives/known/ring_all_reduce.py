# %% right_batch
"""Different: both rings in one function, every step a batch_isend_irecv."""

import torch
import torch.distributed as dist


def pass_on(outgoing, incoming, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    messages = [
        dist.P2POp(dist.isend, outgoing, group=group, group_peer=(rank + 1) % size),
        dist.P2POp(dist.irecv, incoming, group=group, group_peer=(rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()


def ring_all_gather(chunk, sizes, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    gathered = [torch.zeros(num, dtype=chunk.dtype) for num in sizes]
    gathered[rank].copy_(chunk)
    for step in range(size - 1):
        pass_on(gathered[rank - step], gathered[rank - step - 1], group)
    return gathered


def ring_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    chunks = list(tensor.flatten().clone().tensor_split(size))
    for step in range(1, size):
        incoming = torch.empty_like(chunks[rank - 1 - step])
        pass_on(chunks[rank - step], incoming, group)
        chunks[rank - 1 - step] += incoming
    gathered = ring_all_gather(chunks[rank], [chunk.numel() for chunk in chunks], group=group)
    return torch.cat(gathered).reshape(tensor.shape)


# %% passes_on_to_itself of="right_batch"
"""Wrong: at least one step in each ring, so that a rank that is alone sends to itself."""

# -    for step in range(size - 1):
# +    for step in range(max(1, size - 1)):

# -    for step in range(1, size):
# +    for step in range(1, max(2, size)):

# %% sums_in_float32 of="right_batch"
"""Wrong: adds up in float32, whatever it was given."""

# -    chunks = list(tensor.flatten().clone().tensor_split(size))
# +    chunks = list(tensor.flatten().float().tensor_split(size))

# %% right_one_buffer
"""Different: the all-gather receives straight into slices of the finished tensor."""

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
    places = chunk.new_empty(sum(sizes)).split(list(sizes))
    places[rank].copy_(chunk)
    for step in range(size - 1):
        receiving = dist.irecv(places[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
        dist.isend(places[(rank - step) % size], group_dst=(rank + 1) % size, group=group).wait()
        receiving.wait()
    return list(places)


def ring_all_reduce(tensor, *, group):
    flat = tensor.reshape(-1)
    sizes = [len(chunk) for chunk in flat.tensor_split(dist.get_world_size(group))]
    finished = ring_reduce_scatter(flat.split(sizes), group=group)
    return torch.cat(ring_all_gather(finished, sizes, group=group)).reshape_as(tensor)


# %% right_recursion
"""Different: the all-gather hands a chunk on by calling itself."""

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

    def hand_on(outgoing, index, found):
        if len(found) == size:
            return found
        left = (index - 1) % size
        incoming = outgoing.new_empty(sizes[left])
        sending = dist.isend(outgoing, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        return hand_on(incoming, left, found | {left: incoming})

    found = hand_on(chunk, rank, {rank: chunk.clone()})
    return [found[index] for index in range(size)]


def ring_all_reduce(tensor, *, group):
    chunks = tensor.flatten().tensor_split(dist.get_world_size(group))
    finished = ring_reduce_scatter(chunks, group=group)
    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group)
    return torch.cat(gathered).view(tensor.shape)


# %% changes_its_input
"""Wrong: right sum, but it is written back into the caller's tensor."""

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
    return tensor.copy_(torch.cat(gathered).view(tensor.shape))


# %% calls_all_gather of="changes_its_input"
"""Wrong: the library does the all-gather."""

#  def ring_all_gather(chunk, sizes, *, group):
# -    rank, size = dist.get_rank(group), dist.get_world_size(group)

# -    gathered[rank] = chunk.clone()
# -    for step in range(size - 1):
# -        sending = dist.isend(gathered[(rank - step) % size], group_dst=(rank + 1) % size, group=group)
# -        dist.recv(gathered[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
# -        sending.wait()
# +    dist.all_gather(gathered, chunk, group=group)

# -    return tensor.copy_(torch.cat(gathered).view(tensor.shape))
# +    return torch.cat(gathered).view(tensor.shape)

# %% divisible_only of="changes_its_input"
"""Wrong: cuts the tensor into equal chunks and drops the remainder."""

# -    chunks = tensor.flatten().tensor_split(dist.get_world_size(group))
# +    size = dist.get_world_size(group)
# +    length = tensor.numel() // size
# +    total = tensor.clone().flatten()
# +    chunks = [total[rank * length : (rank + 1) * length] for rank in range(size)]

# -    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group)
# -    return tensor.copy_(torch.cat(gathered).view(tensor.shape))
# +    total[: size * length] = torch.cat(ring_all_gather(finished, [length] * size, group=group))
# +    return total.view(tensor.shape)

# %% float32_out of="changes_its_input"
"""Wrong: adds in float32 and returns float32, twice the bytes of bfloat16."""

# -    chunks = tensor.flatten().tensor_split(dist.get_world_size(group))
# +    chunks = tensor.float().flatten().tensor_split(dist.get_world_size(group))

# -    return tensor.copy_(torch.cat(gathered).view(tensor.shape))
# +    return torch.cat(gathered).view(tensor.shape)

# %% gathers_into_one of="changes_its_input"
"""Wrong: the all-gather returns one tensor, not the list of all ranks' chunks; the all-reduce is right."""

# -    return gathered
# +    return torch.cat(gathered)

# -    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group)
# -    return tensor.copy_(torch.cat(gathered).view(tensor.shape))
# +    return ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group).view(tensor.shape)

# %% loses_the_shape of="changes_its_input"
"""Wrong: returns the sum as one flat row."""

# -    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group)
# -    return tensor.copy_(torch.cat(gathered).view(tensor.shape))
# +    return torch.cat(ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group))

# %% mean_for_sum of="changes_its_input"
"""Wrong: divides by the number of ranks."""

# -    return tensor.copy_(torch.cat(gathered).view(tensor.shape))
# +    total = torch.cat(gathered) / dist.get_world_size(group)
# +    return total.view(tensor.shape)

# %% two_ranks_only of="changes_its_input"
"""Wrong: the all-gather makes one step only, right for 2 ranks only."""

# -    gathered = [chunk.new_empty(num) for num in sizes]
# +    gathered = [chunk.new_zeros(num) for num in sizes]
#      gathered[rank] = chunk.clone()
# -    for step in range(size - 1):
# +    for step in range(1):

# -    return tensor.copy_(torch.cat(gathered).view(tensor.shape))
# +    return torch.cat(gathered).view(tensor.shape)

# %% wrong_places of="changes_its_input"
"""Wrong: keeps the chunks in the order of arrival, not in the order of the ranks."""

# -    gathered = [chunk.new_empty(num) for num in sizes]
# -    gathered[rank] = chunk.clone()
# +    gathered = [chunk.clone()]

# -        sending = dist.isend(gathered[(rank - step) % size], group_dst=(rank + 1) % size, group=group)
# -        dist.recv(gathered[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
# +        incoming = chunk.new_empty(sizes[(rank - 1 - step) % size])
# +        sending = dist.isend(gathered[-1], group_dst=(rank + 1) % size, group=group)
# +        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
#          sending.wait()
# +        gathered.append(incoming)
#      return gathered

# -    return tensor.copy_(torch.cat(gathered).view(tensor.shape))
# +    return torch.cat(gathered).view(tensor.shape)

# %% whole_tensors
"""Wrong: whole tensors go round the ring and are added, right answer and N/2 times the bytes."""

import torch
import torch.distributed as dist


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
    everyone = ring_all_gather(tensor.flatten(), [tensor.numel()] * dist.get_world_size(group), group=group)
    return torch.stack(everyone).sum(0).to(tensor.dtype).view(tensor.shape)


# %% calls_all_reduce of="whole_tensors"
"""Wrong: the library does the all-reduce, the exercise asks for the two rings."""

# -import torch

# -    everyone = ring_all_gather(tensor.flatten(), [tensor.numel()] * dist.get_world_size(group), group=group)
# -    return torch.stack(everyone).sum(0).to(tensor.dtype).view(tensor.shape)
# +    total = tensor.clone()
# +    dist.all_reduce(total, group=group)
# +    return total

# %% forgets_the_subgroup of="whole_tensors"
"""Wrong: both rings run over the world, whatever group was passed."""

# +
# +def ring_reduce_scatter(chunks, *, group):
# +    rank, size = dist.get_rank(), dist.get_world_size()
# +    partial = chunks[(rank - 1) % size].clone()
# +    for step in range(size - 1):
# +        mine = chunks[(rank - 2 - step) % size]
# +        incoming = torch.empty_like(mine)
# +        sending = dist.isend(partial, dst=(rank + 1) % size)
# +        dist.recv(incoming, src=(rank - 1) % size)
# +        sending.wait()
# +        partial = incoming + mine
# +    return partial
# +
#
#  def ring_all_gather(chunk, sizes, *, group):
# -    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    rank, size = dist.get_rank(), dist.get_world_size()

# -        sending = dist.isend(gathered[(rank - step) % size], group_dst=(rank + 1) % size, group=group)
# -        dist.recv(gathered[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
# +        sending = dist.isend(gathered[(rank - step) % size], dst=(rank + 1) % size)
# +        dist.recv(gathered[(rank - 1 - step) % size], src=(rank - 1) % size)

# -    everyone = ring_all_gather(tensor.flatten(), [tensor.numel()] * dist.get_world_size(group), group=group)
# -    return torch.stack(everyone).sum(0).to(tensor.dtype).view(tensor.shape)
# +    chunks = tensor.flatten().tensor_split(dist.get_world_size())
# +    finished = ring_reduce_scatter(chunks, group=group)
# +    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group)
# +    return torch.cat(gathered).view(tensor.shape)

# %% through_rank_zero of="whole_tensors"
"""Wrong: everybody sends the whole tensor to rank 0 and gets the sum back."""

# -    everyone = ring_all_gather(tensor.flatten(), [tensor.numel()] * dist.get_world_size(group), group=group)
# -    return torch.stack(everyone).sum(0).to(tensor.dtype).view(tensor.shape)
# +    total, size = tensor.clone(), dist.get_world_size(group)
# +    if dist.get_rank(group) != 0:
# +        dist.send(total, group_dst=0, group=group)
# +        dist.recv(total, group_src=0, group=group)
# +        return total
# +    for source in range(1, size):
# +        part = torch.empty_like(total)
# +        dist.recv(part, group_src=source, group=group)
# +        total += part
# +    for target in range(1, size):
# +        dist.send(total, group_dst=target, group=group)
# +    return total
