# %% right_batch
"""Different: hands both messages over at once with batch_isend_irecv."""

import torch
import torch.distributed as dist


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    received = torch.zeros_like(tensor)
    messages = [
        dist.P2POp(dist.irecv, received, group=group, group_peer=partner),
        dist.P2POp(dist.isend, tensor, group=group, group_peer=partner),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return received


# %% right_both_isend
"""Different: both calls without blocking, then both are waited for."""

import torch
import torch.distributed as dist


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    received = torch.empty_like(tensor)
    works = [
        dist.isend(tensor, group_dst=partner, group=group),
        dist.irecv(received, group_src=partner, group=group),
    ]
    for work in works:
        work.wait()
    return received


# %% right_even_sends_first
"""Different: blocking calls only, the even rank sends first and the odd rank receives first."""

import torch
import torch.distributed as dist


def exchange(tensor, *, group):
    rank = dist.get_rank(group)
    received = torch.empty_like(tensor)
    if rank % 2 == 0:
        dist.send(tensor, group_dst=rank + 1, group=group)
        dist.recv(received, group_src=rank + 1, group=group)
    else:
        dist.recv(received, group_src=rank - 1, group=group)
        dist.send(tensor, group_dst=rank - 1, group=group)
    return received


# %% both_receive_first
"""Wrong: both partners receive first, nobody sends, both wait for ever."""

import torch
import torch.distributed as dist


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    received = torch.empty_like(tensor)
    dist.recv(received, group_src=partner, group=group)
    dist.send(tensor, group_dst=partner, group=group)
    return received


# %% all_gather_and_pick of="both_receive_first"
"""Wrong: gathers everybody's tensor and keeps one, right answer and far too many bytes."""

# -    partner = dist.get_rank(group) ^ 1
# -    received = torch.empty_like(tensor)
# -    dist.recv(received, group_src=partner, group=group)
# -    dist.send(tensor, group_dst=partner, group=group)
# -    return received
# +    everyone = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
# +    dist.all_gather(everyone, tensor, group=group)
# +    return everyone[dist.get_rank(group) ^ 1]

# %% both_send_first of="both_receive_first"
"""Wrong: both partners send first, nobody receives, both wait forever."""

#      received = torch.empty_like(tensor)
# +    dist.send(tensor, group_dst=partner, group=group)

# -    dist.send(tensor, group_dst=partner, group=group)

# %% float32_buffer of="both_receive_first"
"""Wrong: always receives into float32, so bfloat16 is reinterpreted silently."""

# -    received = torch.empty_like(tensor)
# +    received = torch.zeros(tensor.shape, dtype=torch.float32)
# +    sending = dist.isend(tensor, group_dst=partner, group=group)

# -    dist.send(tensor, group_dst=partner, group=group)
# +    sending.wait()

# %% forgets_the_subgroup of="both_receive_first"
"""Wrong: addresses global ranks in the world, right only when the group is the world."""

# -    partner = dist.get_rank(group) ^ 1
# +    partner = dist.get_rank() ^ 1

# -    dist.recv(received, group_src=partner, group=group)
# -    dist.send(tensor, group_dst=partner, group=group)
# +    sending = dist.isend(tensor, dst=partner)
# +    dist.recv(received, src=partner)
# +    sending.wait()

# %% rank_zero_decides of="both_receive_first"
"""Wrong: only rank 0 sends first and all others receive first, so ranks 2 and 3 both wait in recv."""

# -    partner = dist.get_rank(group) ^ 1
# +    rank = dist.get_rank(group)

# -    dist.recv(received, group_src=partner, group=group)
# -    dist.send(tensor, group_dst=partner, group=group)
# +    if rank == 0:
# +        dist.send(tensor, group_dst=rank ^ 1, group=group)
# +        dist.recv(received, group_src=rank ^ 1, group=group)
# +    else:
# +        dist.recv(received, group_src=rank ^ 1, group=group)
# +        dist.send(tensor, group_dst=rank ^ 1, group=group)

# %% two_ranks_only of="both_receive_first"
"""Wrong: a ring, each rank gets its left neighbour's tensor, right for 2 ranks only."""

# -    partner = dist.get_rank(group) ^ 1
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)

# -    dist.recv(received, group_src=partner, group=group)
# -    dist.send(tensor, group_dst=partner, group=group)
# +    sending = dist.isend(tensor, group_dst=(rank + 1) % size, group=group)
# +    dist.recv(received, group_src=(rank - 1) % size, group=group)
# +    sending.wait()

# %% keeps_its_own
"""Wrong: returns its own tensor, nothing was exchanged."""


def exchange(tensor, *, group):
    return tensor.clone()


# %% writes_into_its_input of="keeps_its_own"
"""Wrong: receives into the caller's tensor."""

# +import torch.distributed as dist
# +
# +
#  def exchange(tensor, *, group):
# -    return tensor.clone()
# +    partner = dist.get_rank(group) ^ 1
# +    sending = dist.isend(tensor.clone(), group_dst=partner, group=group)
# +    dist.recv(tensor, group_src=partner, group=group)
# +    sending.wait()
# +    return tensor
