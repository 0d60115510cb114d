# %% right_as_taught
"""Different: counts by an all-to-all of their own, one Function that knows both lists."""

import torch
import torch.distributed as dist


def moved(x, sent, received, group):
    came = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
    return came


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sent, received, group):
        ctx.way = received, sent, group
        return moved(x, sent, received, group)

    @staticmethod
    def backward(ctx, gradient):
        return moved(gradient, *ctx.way), None, None, None


def exchange(x, sent, *, group):
    counts = torch.tensor(sent)
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts, group=group)
    received = received.tolist()
    return AllToAll.apply(x, sent, received, group), received


def exchange_step(x, sent, gradient, *, group):
    leaf = x.clone().requires_grad_()
    rows, received = exchange(leaf, sent, group=group)
    (back,) = torch.autograd.grad(rows, leaf, gradient)
    return rows.detach(), torch.tensor(received), back


# %% no_gradient of="right_as_taught"
"""Wrong: calls the collective as it is: gloo returns a result without a gradient, and says nothing."""

# -    return AllToAll.apply(x, sent, received, group), received
# +    return moved(x, sent, received, group).requires_grad_(), received

# %% zero_gradient of="right_as_taught"
"""Wrong: as the silent one, and zeros where autograd misses a gradient."""

# -        return moved(gradient, *ctx.way), None, None, None
# +        return gradient.new_zeros(sum(ctx.way[1]), gradient.shape[1]), None, None, None

# %% backward_as_forward of="right_as_taught"
"""Wrong: the backward sends by the forward's counts."""

# -        ctx.way = received, sent, group
# +        ctx.way = sent, received, group

# %% even_parts of="right_as_taught"
"""Wrong: an even part for each rank, whatever the counts say."""

# -    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
# -    return came
# +    size = dist.get_world_size(group)
# +    padded = torch.cat([x, x.new_zeros(-len(x) % size, x.shape[1])])
# +    even = torch.empty_like(padded)
# +    dist.all_to_all_single(even, padded, group=group)
# +    return even[: sum(received)]

# %% counts_assumed of="right_as_taught"
"""Wrong: takes what it sends for what it receives."""

# -    dist.all_to_all_single(received, counts, group=group)
# +    received = counts.clone()

# %% pads_to_the_longest of="right_as_taught"
"""Wrong: pads every message to the longest one."""

# -    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
# -    return came
# +    size = dist.get_world_size(group)
# +    longest = torch.tensor([max(sent)])
# +    dist.all_reduce(longest, dist.ReduceOp.MAX, group=group)
# +    longest = int(longest)
# +    padded = x.new_zeros(size, longest, x.shape[1])
# +    for to, piece in enumerate(x.split(sent)):
# +        padded[to, : len(piece)] = piece
# +    even = torch.empty_like(padded)
# +    dist.all_to_all_single(even, padded, group=group)
# +    return torch.cat([one[:n] for one, n in zip(even, received)])

# %% stays_at_home of="right_as_taught"
"""Wrong: sends nothing."""

# -    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
# -    return came
# +    return torch.cat([x, x.new_zeros(len(came), x.shape[1])])[: len(came)]

# %% leaves_out_empty_ranks of="right_as_taught"
"""Wrong: a rank that has no row leaves the call: the others wait."""

# -    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
# +    if len(x):
# +        dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)

# %% skips_an_empty_backward of="right_as_taught"
"""Wrong: a rank that received no row issues no all-to-all in the backward."""

# -        return moved(gradient, *ctx.way), None, None, None
# +        back = gradient.new_zeros(sum(ctx.way[1]), gradient.shape[1])
# +        return (moved(gradient, *ctx.way) if len(gradient) else back), None, None, None

# %% mean_in_the_backward of="right_as_taught"
"""Wrong: divides the gradient by the ranks."""

# -        return moved(gradient, *ctx.way), None, None, None
# +        return moved(gradient, *ctx.way) / dist.get_world_size(ctx.way[2]), None, None, None

# %% widened of="right_as_taught"
"""Wrong: rows travel in float32."""

# -    came = x.new_empty(sum(received), *x.shape[1:])
# -    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
# -    return came
# +    came = torch.empty(sum(received), *x.shape[1:])
# +    dist.all_to_all_single(came, x.float().contiguous(), received, sent, group=group)
# +    return came.to(x.dtype)

# %% forgets_the_subgroup of="right_as_taught"
"""Wrong: an all-to-all over the whole world."""

# -    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
# +    dist.all_to_all_single(came, x.contiguous(), received, sent)

# %% borrows_the_answer of="right_as_taught"
"""Wrong: calls the package's own."""

#  import torch.distributed as dist
# +from shardlab.expert_parallel import all_to_all

# -    return AllToAll.apply(x, sent, received, group), received
# +    return all_to_all(x, sent, received, group=group, agreed=True), received

# %% right_messages
"""Different: the table of counts gathered, rows by sends and receives, the backward by a hook on a leaf of its own."""

import torch
import torch.distributed as dist


def carried(x, sent, received, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    out, came = list(x.split(sent)), [x.new_empty(n, x.shape[1]) for n in received]
    came[rank].copy_(out[rank])
    requests = []
    for step in range(1, size):
        to, source = (rank + step) % size, (rank - step) % size
        if sent[to]:
            requests.append(dist.isend(out[to].contiguous(), group=group, group_dst=to))
        if received[source]:
            requests.append(dist.irecv(came[source], group=group, group_src=source))
    for request in requests:
        request.wait()
    return torch.cat(came)


def exchange_step(x, sent, gradient, *, group):
    mine = torch.tensor(sent)
    table = [torch.empty_like(mine) for _ in sent]
    dist.all_gather(table, mine, group=group)
    received = torch.stack(table)[:, dist.get_rank(group)]
    rows = carried(x, sent, received.tolist(), group)
    return rows, received.clone(), carried(gradient, received.tolist(), sent, group)


# %% gathers_everything of="right_messages"
"""Wrong: gathers all rows on every rank and picks its own."""

# -    requests = []
# -    for step in range(1, size):
# -        to, source = (rank + step) % size, (rank - step) % size
# -        if sent[to]:
# -            requests.append(dist.isend(out[to].contiguous(), group=group, group_dst=to))
# -        if received[source]:
# -            requests.append(dist.irecv(came[source], group=group, group_src=source))
# -    for request in requests:
# -        request.wait()
# -    return torch.cat(came)
# +    counts = [torch.zeros(size, dtype=torch.int64) for _ in range(size)]
# +    dist.all_gather(counts, torch.tensor(sent), group=group)
# +    longest = max(int(one.sum()) for one in counts)
# +    padded = x.new_zeros(longest, x.shape[1])
# +    padded[: len(x)] = x
# +    whole = [torch.empty_like(padded) for _ in range(size)]
# +    dist.all_gather(whole, padded, group=group)
# +    return torch.cat([one.split([*n.tolist(), longest - int(n.sum())])[rank] for one, n in zip(whole, counts)])

# %% two_ranks_only of="right_messages"
"""Wrong: swaps with one neighbour: right for two ranks."""

# -    for step in range(1, size):
# +    for step in range(1, min(size, 2)):

# %% reversed_sources of="right_messages"
"""Wrong: what comes lies in the reversed order of its sources."""

# -    return torch.cat(came)
# +    return torch.cat(came[::-1])

# %% global_ranks of="right_messages"
"""Wrong: addresses others by their rank in the world."""

# -            requests.append(dist.isend(out[to].contiguous(), group=group, group_dst=to))
# +            requests.append(dist.isend(out[to].contiguous(), group=group, dst=to))

# %% changes_its_input of="right_messages"
"""Wrong: scales the gradient in place."""

#      received = torch.stack(table)[:, dist.get_rank(group)]
# +    gradient.mul_(2)
