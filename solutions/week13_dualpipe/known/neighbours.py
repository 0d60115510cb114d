# %% right_as_taught from="page"
"""Different: as the page solves it."""

import torch
import torch.distributed as dist

# %% activation_twice of="right_as_taught"
"""Wrong: sends the activation twice."""

# -    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
# +    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, activation)]

# %% always_gradient_first of="right_as_taught"
"""Wrong: both send the gradient first and take it for the activation."""

# -    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
# +    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (gradient, activation)]

# %% forgets_the_subgroup of="right_as_taught"
"""Wrong: the neighbour in the world."""

# -    partner = dist.get_rank(group) ^ 1
# +    partner = dist.get_rank() ^ 1

# -    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
# -    messages += [dist.P2POp(dist.irecv, tensor, group=group, group_peer=partner) for tensor in receives]
# +    messages = [dist.P2POp(dist.isend, tensor, peer=partner) for tensor in (activation, gradient)]
# +    messages += [dist.P2POp(dist.irecv, tensor, peer=partner) for tensor in receives]

# %% gathers_and_picks of="right_as_taught"
"""Wrong: sends to everybody."""

# -    partner = dist.get_rank(group) ^ 1
# -    receives = [torch.empty_like(activation), torch.empty_like(gradient)]
# -    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
# -    messages += [dist.P2POp(dist.irecv, tensor, group=group, group_peer=partner) for tensor in receives]
# -    for work in dist.batch_isend_irecv(messages):
# -        work.wait()
# -    return receives[0], receives[1]
# +    size, partner = dist.get_world_size(group), dist.get_rank(group) ^ 1
# +    activations = [torch.empty_like(activation) for _ in range(size)]
# +    gradients = [torch.empty_like(gradient) for _ in range(size)]
# +    dist.all_gather(activations, activation, group=group)
# +    dist.all_gather(gradients, gradient, group=group)
# +    return activations[partner], gradients[partner]

# %% keeps_its_own of="right_as_taught"
"""Wrong: returns what it had."""

# -    return receives[0], receives[1]
# +    return activation.clone(), gradient.clone()

# %% needed_first of="right_as_taught"
"""Wrong: the bug itself, the upper rank sends its gradient first."""

# -    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
# +    is_lower = partner > dist.get_rank(group)
# +    sends = [activation, gradient] if is_lower else [gradient, activation]
# +    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in sends]

# %% swapped_result of="right_as_taught"
"""Wrong: returns the gradient first."""

# -    return receives[0], receives[1]
# +    return receives[1], receives[0]

# %% tags_in_pairs of="right_as_taught"
"""Wrong: tags in a batch of P2POps, in another order on each side."""

# -    receives = [torch.empty_like(activation), torch.empty_like(gradient)]
# -    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
# -    messages += [dist.P2POp(dist.irecv, tensor, group=group, group_peer=partner) for tensor in receives]
# +    receives = [torch.empty_like(gradient), torch.empty_like(activation)]
# +    pairs = [(dist.isend, activation, 0), (dist.isend, gradient, 1), (dist.irecv, receives[0], 1)]
# +    pairs.append((dist.irecv, receives[1], 0))
# +    messages = [dist.P2POp(op, one, group=group, group_peer=partner, tag=tag) for op, one, tag in pairs]

# -    return receives[0], receives[1]
# +    return receives[1], receives[0]

# %% writes_into_its_input of="right_as_taught"
"""Wrong: receives into the tensors that are still to be sent."""

# -import torch

# -    receives = [torch.empty_like(activation), torch.empty_like(gradient)]
# -    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
# +    receives = [activation, gradient]
# +    sends = [activation.clone(), gradient.clone()]
# +    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in sends]

# %% right_in_turn
"""Different: the lower rank sends both, then receives both."""

import torch
import torch.distributed as dist


def swap_with_neighbour(activation, gradient, *, group):
    rank = dist.get_rank(group)
    received = (torch.empty_like(activation), torch.empty_like(gradient))

    def send():
        for tensor in (activation, gradient):
            dist.send(tensor, group_dst=rank ^ 1, group=group)

    def receive():
        for tensor in received:
            dist.recv(tensor, group_src=rank ^ 1, group=group)

    for step in (send, receive) if rank % 2 == 0 else (receive, send):
        step()
    return received


# %% right_one_message
"""Different: both in one message."""

import torch
import torch.distributed as dist


def swap_with_neighbour(activation, gradient, *, group):
    partner = dist.get_rank(group) ^ 1
    both = torch.stack([activation, gradient])
    theirs = torch.empty_like(both)
    sending = dist.isend(both, group_dst=partner, group=group)
    dist.recv(theirs, group_src=partner, group=group)
    sending.wait()
    return theirs[0].clone(), theirs[1].clone()


# %% right_with_tags
"""Different: tags that nobody needs, for the order is right too."""

import torch
import torch.distributed as dist


def swap_with_neighbour(activation, gradient, *, group):
    partner = dist.get_rank(group) ^ 1
    receives = [torch.empty_like(activation), torch.empty_like(gradient)]
    works = [dist.isend(one, group=group, group_dst=partner, tag=7 + k) for k, one in enumerate((activation, gradient))]
    works += [dist.irecv(one, group=group, group_src=partner, tag=7 + k) for k, one in enumerate(receives)]
    for work in works:
        work.wait()
    return receives[0], receives[1]


# %% tags_for_order of="right_with_tags"
"""Wrong: each rank sends in another order and tags tell the two apart, which NCCL ignores."""

#      partner = dist.get_rank(group) ^ 1
# +    sends = [(1, activation), (2, gradient)]
# +    if partner < dist.get_rank(group):
# +        sends.reverse()

# -    works = [dist.isend(one, group=group, group_dst=partner, tag=7 + k) for k, one in enumerate((activation, gradient))]
# -    works += [dist.irecv(one, group=group, group_src=partner, tag=7 + k) for k, one in enumerate(receives)]
# +    works = [dist.isend(tensor, group=group, group_dst=partner, tag=tag) for tag, tensor in sends]
# +    works += [dist.irecv(one, group=group, group_src=partner, tag=tag) for tag, one in enumerate(receives, 1)]
