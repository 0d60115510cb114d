# %% right_even_and_odd
"""Different: blocking calls only, even ranks send first and odd ranks receive first."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    like = gradient if activation is None else activation
    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]

    for is_even_pair in (True, False):  # pairs (0, 1), (2, 3), ..., then (1, 2), (3, 4), ...
        goes_right = (rank % 2 == 0) == is_even_pair
        if goes_right and rank < last:
            dist.send(activation, group_dst=rank + 1, group=group)
            dist.recv(received[1], group_src=rank + 1, group=group)
        if not goes_right and rank > 0:
            dist.recv(received[0], group_src=rank - 1, group=group)
            dist.send(gradient, group_dst=rank - 1, group=group)
    return received


# %% right_isend_irecv
"""Different: all four calls without blocking, then all are waited for."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    like = gradient if activation is None else activation
    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]

    works = []
    if rank < last:
        works.append(dist.isend(activation, group_dst=rank + 1, group=group))
        works.append(dist.irecv(received[1], group_src=rank + 1, group=group))
    if rank > 0:
        works.append(dist.isend(gradient, group_dst=rank - 1, group=group))
        works.append(dist.irecv(received[0], group_src=rank - 1, group=group))
    for work in works:
        work.wait()
    return tuple(received)


# %% float32_buffers of="right_isend_irecv"
"""Wrong: always receives float32, so bfloat16 is reinterpreted silently."""

# -    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]
# +    received = [None if rank == 0 else torch.zeros(like.shape), None if rank == last else torch.zeros(like.shape)]

# %% forgets_the_subgroup of="right_isend_irecv"
"""Wrong: addresses global ranks in the world, right only when the group is the world."""

# -    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
# +    rank, last = dist.get_rank(), dist.get_world_size() - 1

# -        works.append(dist.isend(activation, group_dst=rank + 1, group=group))
# -        works.append(dist.irecv(received[1], group_src=rank + 1, group=group))
# +        works.append(dist.isend(activation, dst=rank + 1))
# +        works.append(dist.irecv(received[1], src=rank + 1))

# -        works.append(dist.isend(gradient, group_dst=rank - 1, group=group))
# -        works.append(dist.irecv(received[0], group_src=rank - 1, group=group))
# +        works.append(dist.isend(gradient, dst=rank - 1))
# +        works.append(dist.irecv(received[0], src=rank - 1))

# %% swaps_the_two of="right_isend_irecv"
"""Wrong: returns the gradient first."""

# -    return tuple(received)
# +    return received[1], received[0]

# %% zeros_at_the_ends of="right_isend_irecv"
"""Wrong: makes up zeros where there is no neighbour."""

# -    return tuple(received)
# +    return tuple(torch.zeros_like(like) if tensor is None else tensor for tensor in received)

# %% right_two_sweeps
"""Different: blocking calls, activations sweep to the right and then gradients to the left."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    like = gradient if activation is None else activation
    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]

    if rank > 0:
        dist.recv(received[0], group_src=rank - 1, group=group)
    if rank < last:
        dist.send(activation, group_dst=rank + 1, group=group)
        dist.recv(received[1], group_src=rank + 1, group=group)
    if rank > 0:
        dist.send(gradient, group_dst=rank - 1, group=group)
    return tuple(received)


# %% all_receive_first of="right_two_sweeps"
"""Wrong: every rank receives first and nobody sends."""

#      if rank < last:
# +        dist.recv(received[1], group_src=rank + 1, group=group)

# -        dist.recv(received[1], group_src=rank + 1, group=group)

# %% all_send_first of="right_two_sweeps"
"""Wrong: every rank sends both before it receives, neighbours wait for each other forever."""

#
# +    if rank < last:
# +        dist.send(activation, group_dst=rank + 1, group=group)
#      if rank > 0:
# +        dist.send(gradient, group_dst=rank - 1, group=group)
#          dist.recv(received[0], group_src=rank - 1, group=group)

# -        dist.send(activation, group_dst=rank + 1, group=group)

# -    if rank > 0:
# -        dist.send(gradient, group_dst=rank - 1, group=group)

# %% does_not_wait of="right_two_sweeps"
"""Wrong: returns buffers that are still empty."""

#
# +    works = []
# +    if rank < last:
# +        works.append(dist.isend(activation, group_dst=rank + 1, group=group))
# +        works.append(dist.irecv(received[1], group_src=rank + 1, group=group))
#      if rank > 0:
# -        dist.recv(received[0], group_src=rank - 1, group=group)
# -    if rank < last:
# -        dist.send(activation, group_dst=rank + 1, group=group)
# -        dist.recv(received[1], group_src=rank + 1, group=group)
# -    if rank > 0:
# -        dist.send(gradient, group_dst=rank - 1, group=group)
# +        works.append(dist.isend(gradient, group_dst=rank - 1, group=group))
# +        works.append(dist.irecv(received[0], group_src=rank - 1, group=group))

# %% one_pair_at_a_time of="right_two_sweeps"
"""Wrong: each pair in turn, but both sides of it send first."""

# -    if rank > 0:
# -        dist.recv(received[0], group_src=rank - 1, group=group)
# -    if rank < last:
# -        dist.send(activation, group_dst=rank + 1, group=group)
# -        dist.recv(received[1], group_src=rank + 1, group=group)
# -    if rank > 0:
# -        dist.send(gradient, group_dst=rank - 1, group=group)
# +    for left in range(last):
# +        if rank == left:
# +            dist.send(activation, group_dst=left + 1, group=group)
# +            dist.recv(received[1], group_src=left + 1, group=group)
# +        elif rank == left + 1:
# +            dist.send(gradient, group_dst=left, group=group)
# +            dist.recv(received[0], group_src=left, group=group)

# %% gathers_everything
"""Wrong: gathers everybody's tensors and picks two, right answer and far too many bytes."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    like = gradient if activation is None else activation
    both = torch.stack([like if activation is None else activation, like if gradient is None else gradient])
    everyone = [torch.empty_like(both) for _ in range(size)]
    dist.all_gather(everyone, both, group=group)
    before = everyone[rank - 1][0].clone() if rank else None
    return before, everyone[rank + 1][1].clone() if rank < size - 1 else None


# %% closes_the_ring of="gathers_everything"
"""Wrong: the last rank sends its gradient on to rank 0, as a ring would."""

# -    both = torch.stack([like if activation is None else activation, like if gradient is None else gradient])
# -    everyone = [torch.empty_like(both) for _ in range(size)]
# -    dist.all_gather(everyone, both, group=group)
# -    before = everyone[rank - 1][0].clone() if rank else None
# -    return before, everyone[rank + 1][1].clone() if rank < size - 1 else None
# +    left, right = (rank - 1) % size, (rank + 1) % size
# +    received = [torch.empty_like(like), torch.empty_like(like)]
# +    works = [
# +        dist.isend(like if activation is None else activation, group_dst=right, group=group),
# +        dist.irecv(received[0], group_src=left, group=group),
# +        dist.isend(like if gradient is None else gradient, group_dst=left, group=group),
# +        dist.irecv(received[1], group_src=right, group=group),
# +    ]
# +    for work in works:
# +        work.wait()
# +    return (received[0] if rank else None, received[1] if rank < size - 1 else None)

# %% global_neighbours of="gathers_everything"
"""Wrong: the ranks beside it in the world, right for a group without gaps."""

# -    rank, size = dist.get_rank(group), dist.get_world_size(group)
# -    like = gradient if activation is None else activation
# -    both = torch.stack([like if activation is None else activation, like if gradient is None else gradient])
# -    everyone = [torch.empty_like(both) for _ in range(size)]
# -    dist.all_gather(everyone, both, group=group)
# -    before = everyone[rank - 1][0].clone() if rank else None
# -    return before, everyone[rank + 1][1].clone() if rank < size - 1 else None
# +    mine, works = dist.get_rank(), []
# +    before = None if gradient is None else torch.empty_like(gradient)
# +    behind = None if activation is None else torch.empty_like(activation)
# +    for outgoing, incoming, peer in ((activation, behind, mine + 1), (gradient, before, mine - 1)):
# +        if outgoing is not None:
# +            works.append(dist.isend(outgoing, dst=peer, group=group))
# +            works.append(dist.irecv(incoming, src=peer, group=group))
# +    for work in works:
# +        work.wait()
# +    return before, behind

# %% two_ranks_only of="gathers_everything"
"""Wrong: even ranks talk to the right and odd ranks to the left, nobody else."""

# -    rank, size = dist.get_rank(group), dist.get_world_size(group)
# -    like = gradient if activation is None else activation
# -    both = torch.stack([like if activation is None else activation, like if gradient is None else gradient])
# -    everyone = [torch.empty_like(both) for _ in range(size)]
# -    dist.all_gather(everyone, both, group=group)
# -    before = everyone[rank - 1][0].clone() if rank else None
# -    return before, everyone[rank + 1][1].clone() if rank < size - 1 else None
# +    rank = dist.get_rank(group)
# +    if rank % 2 == 0:
# +        behind = torch.empty_like(activation)
# +        dist.send(activation, group_dst=rank + 1, group=group)
# +        dist.recv(behind, group_src=rank + 1, group=group)
# +        return None, behind
# +    before = torch.empty_like(gradient)
# +    dist.recv(before, group_src=rank - 1, group=group)
# +    dist.send(gradient, group_dst=rank - 1, group=group)
# +    return before, None

# %% writes_into_its_input
"""Wrong: receives into the tensor that it was given."""

import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    works = []
    if rank < last:
        works.append(dist.isend(activation.clone(), group_dst=rank + 1, group=group))
        works.append(dist.irecv(activation, group_src=rank + 1, group=group))
    if rank > 0:
        works.append(dist.isend(gradient.clone(), group_dst=rank - 1, group=group))
        works.append(dist.irecv(gradient, group_src=rank - 1, group=group))
    for work in works:
        work.wait()
    return gradient, activation
