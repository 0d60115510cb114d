# %% right_as_taught from="page"
"""Different: as the page solves it."""

import torch
import torch.distributed as dist

# %% blocking_sends_first of="right_as_taught"
"""Wrong: both ranks send before they receive."""

# -    """gradients: of stage r, of stage P-1-r. Returns both, with the other copies' gradients added."""

# -    received = [torch.empty_like(gradients[1]), torch.empty_like(gradients[0])]  # the other rank's order
# -    messages = [dist.P2POp(dist.isend, mine, group=group, group_peer=twin) for mine in gradients]
# -    messages += [dist.P2POp(dist.irecv, theirs, group=group, group_peer=twin) for theirs in received]
# -    for work in dist.batch_isend_irecv(messages):
# -        work.wait()
# +    for mine in gradients:
# +        dist.send(mine, group_dst=twin, group=group)
# +    received = [torch.empty_like(gradients[1]), torch.empty_like(gradients[0])]
# +    for theirs in received:
# +        dist.recv(theirs, group_src=twin, group=group)

# %% changes_its_input of="right_as_taught"
"""Wrong: adds in place."""

# -    return [gradients[0] + received[1], gradients[1] + received[0]]
# +    return [gradients[0].add_(received[1]), gradients[1].add_(received[0])]

# %% equal_sizes_only of="right_as_taught"
"""Wrong: buffers for stages of one size."""

# -    received = [torch.empty_like(gradients[1]), torch.empty_like(gradients[0])]  # the other rank's order
# +    received = [torch.empty_like(gradients[0]), torch.empty_like(gradients[1])]  # the other rank's order

# %% forgets_the_group of="right_as_taught"
"""Wrong: the other rank by its number in the world."""

# -    """gradients: of stage r, of stage P-1-r. Returns both, with the other copies' gradients added."""
# -    twin = dist.get_world_size(group) - 1 - dist.get_rank(group)
# -    received = [torch.empty_like(gradients[1]), torch.empty_like(gradients[0])]  # the other rank's order
# -    messages = [dist.P2POp(dist.isend, mine, group=group, group_peer=twin) for mine in gradients]
# -    messages += [dist.P2POp(dist.irecv, theirs, group=group, group_peer=twin) for theirs in received]
# +    twin = dist.get_world_size() - 1 - dist.get_rank()
# +    received = [torch.empty_like(gradients[1]), torch.empty_like(gradients[0])]
# +    messages = [dist.P2POp(dist.isend, mine, peer=twin) for mine in gradients]
# +    messages += [dist.P2POp(dist.irecv, theirs, peer=twin) for theirs in received]

# %% mean_for_sum of="right_as_taught"
"""Wrong: averages the copies; each has seen half of the batch, weighted already."""

# -    return [gradients[0] + received[1], gradients[1] + received[0]]
# +    return [(gradients[0] + received[1]) / 2, (gradients[1] + received[0]) / 2]

# %% neighbour of="right_as_taught"
"""Wrong: takes the neighbour for the rank with the other copies."""

# -    twin = dist.get_world_size(group) - 1 - dist.get_rank(group)
# +    twin = dist.get_rank(group) ^ 1

# %% nobody_adds of="right_as_taught"
"""Wrong: the copies drift apart."""

# -    return [gradients[0] + received[1], gradients[1] + received[0]]
# +    return [gradients[0].clone(), gradients[1].clone()]

# %% order_of_the_result of="right_as_taught"
"""Wrong: returns the stages in the other rank's order."""

# -    return [gradients[0] + received[1], gradients[1] + received[0]]
# +    return [gradients[1] + received[0], gradients[0] + received[1]]

# %% sends_twice of="right_as_taught"
"""Wrong: the gradients travel twice."""

#          work.wait()
# +    again = [torch.empty_like(r) for r in received]
# +    messages = [dist.P2POp(dist.isend, mine, group=group, group_peer=twin) for mine in gradients]
# +    messages += [dist.P2POp(dist.irecv, theirs, group=group, group_peer=twin) for theirs in again]
# +    for work in dist.batch_isend_irecv(messages):
# +        work.wait()

# %% stage_by_place of="right_as_taught"
"""Wrong: adds first to first: the gradient of another stage, of the same shape."""

# -    return [gradients[0] + received[1], gradients[1] + received[0]]
# +    return [gradients[0] + received[0], gradients[1] + received[1]]

# %% theirs_only of="right_as_taught"
"""Wrong: returns the other copies' gradients."""

# -    return [gradients[0] + received[1], gradients[1] + received[0]]
# +    return [received[1], received[0]]

# %% right_by_stage
"""Different: ordered by stage, the smaller number first on both ranks; blocking calls in turn."""

import torch
import torch.distributed as dist


def add_copies(gradients, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    twin = size - 1 - rank
    places = [0, 1] if rank < twin else [1, 0]
    sums = [None, None]
    for place in places:
        theirs = torch.empty_like(gradients[place])
        if rank < twin:
            dist.send(gradients[place], group_dst=twin, group=group)
            dist.recv(theirs, group_src=twin, group=group)
        else:
            dist.recv(theirs, group_src=twin, group=group)
            dist.send(gradients[place], group_dst=twin, group=group)
        sums[place] = gradients[place] + theirs
    return sums


# %% right_one_message
"""Different: both gradients in one message."""

import torch
import torch.distributed as dist


def add_copies(gradients, *, group):
    twin = dist.get_world_size(group) - 1 - dist.get_rank(group)
    mine = torch.cat([gradients[0], gradients[1]])
    theirs = torch.empty_like(mine)
    sending = dist.isend(mine, group_dst=twin, group=group)
    dist.recv(theirs, group_src=twin, group=group)
    sending.wait()
    second, first = theirs.split([len(gradients[1]), len(gradients[0])])
    return gradients[0] + first, gradients[1] + second
