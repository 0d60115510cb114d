# %% right_as_taught
"""Different: gradients travel with their keys, one step behind the sends of the keys."""

import torch
import torch.distributed as dist


def block_gradients(gradient, q, k, v, o, lse, q_positions, k_positions):
    shared, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    q, keys, values = q.float(), k.float().repeat_interleave(shared, 1), v.float().repeat_interleave(shared, 1)
    scores = (q @ keys.mT * scale).masked_fill(k_positions > q_positions[:, None], -torch.inf)
    p = (scores - lse[..., None]).exp()
    ds = p * (gradient @ values.mT - (gradient * o).sum(-1, keepdim=True)) * scale
    dk, dv = ds.mT @ q, p.mT @ gradient
    return ds @ keys, dk.unflatten(1, (-1, shared)).sum(2), dv.unflatten(1, (-1, shared)).sum(2)


def pass_on(tensors, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    coming = [torch.empty_like(one) for one in tensors]
    requests = [dist.isend(one, group=group, group_dst=(rank + 1) % size) for one in tensors]
    requests += [dist.irecv(one, group=group, group_src=(rank - 1) % size) for one in coming]
    for request in requests:
        request.wait()
    return coming


def ring_backward(gradient, q, k, v, o, lse, positions, *, group):
    size = dist.get_world_size(group)
    here = [k, v, positions]
    sums = [torch.zeros(one.shape) for one in (k, v)]
    dq = torch.zeros(q.shape)
    for step in range(size):
        shares = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2])
        dq += shares[0]
        sums = [one + share for one, share in zip(sums, shares[1:], strict=True)]
        if step < size - 1:
            here = pass_on(here, group)
        if size > 1:
            sums = pass_on(sums, group)
    return dq, *sums


# %% stale_kv of="right_as_taught"
"""Wrong: every step computes with the first step's keys and values (diffusers#14265)."""

# -        shares = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2])
# +        shares = block_gradients(gradient, q, k, v, o, lse, positions, here[2])

# %% stale_kv_and_positions of="right_as_taught"
"""Wrong: every step computes with this rank's own block, positions and all."""

# -        shares = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2])
# +        shares = block_gradients(gradient, q, k, v, o, lse, positions, positions)

# %% own_o_and_lse of="right_as_taught"
"""Wrong: each block's own o and lse in the backward, the gradient scaled (tt-metal#53205): dv right, dq and dk not."""

# -        shares = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2])
# +        shared = q.shape[1] // k.shape[1]
# +        keys, values = (one.float().repeat_interleave(shared, 1) for one in here[:2])
# +        scores = (q.float() @ keys.mT * q.shape[-1] ** -0.5).masked_fill(here[2] > positions[:, None], -torch.inf)
# +        own_lse = scores.logsumexp(-1).clamp(min=-1e30)
# +        own_o = (scores - own_lse[..., None]).exp() @ values
# +        scaled = (own_lse - lse).exp()[..., None] * gradient
# +        shares = block_gradients(scaled, q, here[0], here[1], own_o, own_lse, positions, here[2])

# %% own_lse of="right_as_taught"
"""Wrong: each block's own log-sum-exp, and the gradient as it is."""

# -        shares = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2])
# +        shared = q.shape[1] // k.shape[1]
# +        keys = here[0].float().repeat_interleave(shared, 1)
# +        scores = (q.float() @ keys.mT * q.shape[-1] ** -0.5).masked_fill(here[2] > positions[:, None], -torch.inf)
# +        own_lse = scores.logsumexp(-1).clamp(min=-1e30)
# +        shares = block_gradients(gradient, q, here[0], here[1], o, own_lse, positions, here[2])

# %% no_correction of="right_as_taught"
"""Wrong: leaves out the row sum of gradient times output."""

# -    ds = p * (gradient @ values.mT - (gradient * o).sum(-1, keepdim=True)) * scale
# +    ds = p * (gradient @ values.mT) * scale

# %% gradients_stay of="right_as_taught"
"""Wrong: adds what it computes for others' keys to its own."""

# -        if size > 1:
# -            sums = pass_on(sums, group)

# %% one_step_from_home of="right_as_taught"
"""Wrong: gradients stop one rank before home."""

# -        if size > 1:
# +        if step < size - 1:

# %% zig_zag_without_positions of="right_as_taught"
"""Wrong: masks as if every rank had one piece of the sequence, in order."""

# -        shares = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2])
# +        shares = block_gradients(gradient, q, here[0], here[1], o, lse, torch.arange(len(positions)) + len(positions) * dist.get_rank(group), torch.arange(len(positions)) + len(positions) * ((dist.get_rank(group) - step) % size))

# %% mask_off_by_one_block of="right_as_taught"
"""Wrong: takes the keys that come for a block earlier than they are."""

# -        shares = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2])
# +        shares = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2] - len(positions) * (step > 0))

# %% no_mask of="right_as_taught"
"""Wrong: every query sees every key."""

# -    scores = (q @ keys.mT * scale).masked_fill(k_positions > q_positions[:, None], -torch.inf)
# +    scores = (q @ keys.mT * scale)

# %% buffer_used_twice of="right_as_taught"
"""Wrong: the sum for dq is overwritten by the next step's, as an alias of a buffer is."""

# -        dq += shares[0]
# +        dq = shares[0]

# %% heads_not_summed of="right_as_taught"
"""Wrong: of the heads that share a key, the first one's gradient."""

# -    return ds @ keys, dk.unflatten(1, (-1, shared)).sum(2), dv.unflatten(1, (-1, shared)).sum(2)
# +    return ds @ keys, dk.unflatten(1, (-1, shared))[:, :, 0], dv.unflatten(1, (-1, shared)).sum(2)

# %% heads_averaged of="right_as_taught"
"""Wrong: of the heads that share a key, the mean."""

# -    return ds @ keys, dk.unflatten(1, (-1, shared)).sum(2), dv.unflatten(1, (-1, shared)).sum(2)
# +    return ds @ keys, dk.unflatten(1, (-1, shared)).sum(2), dv.unflatten(1, (-1, shared)).mean(2)

# %% as_for_two_ranks of="right_as_taught"
"""Wrong: swaps gradients with one neighbour once."""

# -    for step in range(size):
# +    for step in range(min(size, 2)):

# %% all_reduces_the_gradients of="right_as_taught"
"""Wrong: all-reduces gradients of the whole sequence instead of passing them on."""

# -    return dq, *sums
# +    wholes = [torch.zeros(size, *one.shape) for one in sums]
# +    for whole, one in zip(wholes, sums, strict=True):
# +        whole[dist.get_rank(group)] = one
# +        dist.all_reduce(whole, group=group)
# +    return dq, *(whole[dist.get_rank(group)] for whole in wholes)

# %% wide_blocks of="right_as_taught"
"""Wrong: widens keys and values before they travel."""

# -    here = [k, v, positions]
# +    here = [k.float(), v.float(), positions]

# %% rounded_sums of="right_as_taught"
"""Wrong: the sums travel in the inputs' type."""

# -            sums = pass_on(sums, group)
# +            sums = [one.float() for one in pass_on([one.to(k.dtype) for one in sums], group)]

# %% forgets_the_subgroup of="right_as_taught"
"""Wrong: a ring over the whole world."""

#  def pass_on(tensors, group):
# +    group = None

# %% global_ranks of="right_as_taught"
"""Wrong: addresses its neighbours by their rank in the world."""

# -    requests = [dist.isend(one, group=group, group_dst=(rank + 1) % size) for one in tensors]
# +    requests = [dist.isend(one, group=group, dst=(rank + 1) % size) for one in tensors]

# %% changes_its_input of="right_as_taught"
"""Wrong: scales the gradient in place."""

#      dq = torch.zeros(q.shape)
# +    gradient.mul_(1 + 1e-6)

# %% right_own_share_last
"""Different: autograd makes a block's gradients; a rank's own share waits at home, and nothing goes round in full."""

import torch
import torch.distributed as dist


def shares(gradient, q, k, v, o, lse, mine, theirs):
    leaves = [one.float().clone().requires_grad_() for one in (q, k, v)]
    shared = q.shape[1] // k.shape[1]
    keys, values = (one.repeat_interleave(shared, 1) for one in leaves[1:])
    scores = leaves[0] @ keys.transpose(2, 3) * q.shape[-1] ** -0.5
    weights = torch.exp(scores - lse.unsqueeze(-1)).masked_fill(theirs > mine.unsqueeze(1), 0)
    correction = (gradient * o).sum(-1, keepdim=True).detach()
    worth = (weights @ values * gradient).sum() - (weights * correction).sum()
    return torch.autograd.grad(worth, leaves)


def ring_backward(gradient, q, k, v, o, lse, positions, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    left, right = (rank - 1) % size, (rank + 1) % size

    def exchange(tensors):
        came = [torch.empty_like(one) for one in tensors]
        for out, into in zip(tensors, came, strict=True):
            operations = [dist.P2POp(dist.isend, out, group=group, group_peer=right)]
            operations.append(dist.P2POp(dist.irecv, into, group=group, group_peer=left))
            for request in dist.batch_isend_irecv(operations):
                request.wait()
        return came

    dq, own_dk, own_dv = shares(gradient, q, k, v, o, lse, positions, positions)
    block, travelling = (k, v, positions), None
    for _ in range(size - 1):
        block = exchange(block)
        here_q, here_k, here_v = shares(gradient, q, block[0], block[1], o, lse, positions, block[2])
        dq = dq + here_q
        if travelling is not None:
            before = exchange(travelling)
            here_k, here_v = here_k + before[0], here_v + before[1]
        travelling = [here_k.contiguous(), here_v.contiguous()]
    if travelling is not None:
        home = exchange(travelling)
        own_dk, own_dv = own_dk + home[0], own_dv + home[1]
    return dq, own_dk, own_dv


# %% own_share_alone of="right_own_share_last"
"""Wrong: the gradients of a rank's own queries alone: sends nothing back."""

# -        own_dk, own_dv = own_dk + home[0], own_dv + home[1]
