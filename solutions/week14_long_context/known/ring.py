# %% right_as_taught
"""Different: sends begin before a block is computed, partial results by log-sum-exps."""

import torch
import torch.distributed as dist


def block_attention(q, k, v, q_positions, k_positions):
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    scores = q.float() @ k.float().mT / q.shape[-1] ** 0.5
    scores = scores.masked_fill(k_positions > q_positions[:, None], -torch.inf)
    lse = scores.logsumexp(-1)
    return (scores - lse[..., None]).exp().nan_to_num(0.0) @ v.float(), lse


def pass_on(tensors, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    coming = [torch.empty_like(one) for one in tensors]
    requests = [dist.isend(one, group=group, group_dst=(rank + 1) % size) for one in tensors]
    requests += [dist.irecv(one, group=group, group_src=(rank - 1) % size) for one in coming]
    return coming, requests


def merge(o, lse, o_block, lse_block):
    whole = torch.logaddexp(lse, lse_block)
    return o * (lse - whole).exp()[..., None] + o_block * (lse_block - whole).exp()[..., None], whole


def ring_attention(q, k, v, positions, *, group):
    o = lse = None
    here = [k, v, positions]
    size = dist.get_world_size(group)
    for step in range(size):
        coming, requests = pass_on(here, group) if step < size - 1 else (None, [])
        partial = block_attention(q, here[0], here[1], positions, here[2])
        o, lse = merge(o, lse, *partial) if step else partial
        for request in requests:
            request.wait()
        here = coming
    return o, lse


# %% local_softmax of="right_as_taught"
"""Wrong: a softmax of its own for each block, averaged over the blocks."""

# -    return o * (lse - whole).exp()[..., None] + o_block * (lse_block - whole).exp()[..., None], whole
# +    return (o + o_block) / 2, whole

# %% adds_the_blocks of="right_as_taught"
"""Wrong: adds the blocks' outputs, each normalised by itself."""

# -    return o * (lse - whole).exp()[..., None] + o_block * (lse_block - whole).exp()[..., None], whole
# +    return o + o_block, whole

# %% mask_off_by_one_block of="right_as_taught"
"""Wrong: the mask off by one block: takes the keys that come for a block earlier than they are."""

# -        partial = block_attention(q, here[0], here[1], positions, here[2])
# +        partial = block_attention(q, here[0], here[1], positions, here[2] - len(positions) * (step > 0))

# %% own_block_alone of="right_as_taught"
"""Wrong: sends nothing: a rank's own keys."""

# -    size = dist.get_world_size(group)
# +    size = 1

# %% zig_zag_without_positions of="right_as_taught"
"""Wrong: masks as if every rank had one piece of the sequence, in order."""

# -        partial = block_attention(q, here[0], here[1], positions, here[2])
# +        own, rows = dist.get_rank(group), torch.arange(len(positions))
# +        partial = block_attention(q, here[0], here[1], rows + own * len(rows), rows + (own - step) % size * len(rows))

# %% not_itself of="right_as_taught"
"""Wrong: a query does not see its own position."""

# -    scores = scores.masked_fill(k_positions > q_positions[:, None], -torch.inf)
# +    scores = scores.masked_fill(k_positions >= q_positions[:, None], -torch.inf)

# %% positions_stay of="right_as_taught"
"""Wrong: the keys go round, their positions do not."""

# -        partial = block_attention(q, here[0], here[1], positions, here[2])
# +        partial = block_attention(q, here[0], here[1], positions, positions)

# %% one_step_short of="right_as_taught"
"""Wrong: stops one block before the last."""

# -    size = dist.get_world_size(group)
# +    size = dist.get_world_size(group) - (dist.get_world_size(group) > 2)

# %% same_block_again of="right_as_taught"
"""Wrong: passes its own block on again and again: right for two ranks only."""

# -        coming, requests = pass_on(here, group) if step < size - 1 else (None, [])
# +        coming, requests = pass_on([k, v, positions], group) if step < size - 1 else (None, [])

# %% old_log_sum_exp of="right_as_taught"
"""Wrong: keeps the log-sum-exp of the first block."""

# -    return o * (lse - whole).exp()[..., None] + o_block * (lse_block - whole).exp()[..., None], whole
# +    return o * (lse - whole).exp()[..., None] + o_block * (lse_block - whole).exp()[..., None], lse

# %% weights_swapped of="right_as_taught"
"""Wrong: weighs each part with the other's sum."""

# -    return o * (lse - whole).exp()[..., None] + o_block * (lse_block - whole).exp()[..., None], whole
# +    return o * (lse_block - whole).exp()[..., None] + o_block * (lse - whole).exp()[..., None], whole

# %% partial_results_in_bfloat16 of="right_as_taught"
"""Wrong: partial results are rounded to the inputs' type."""

#          o, lse = merge(o, lse, *partial) if step else partial
# +        o = o.to(q.dtype).float()

# %% sends_float32 of="right_as_taught"
"""Wrong: widens keys and values first, and sends twice the bytes."""

# -    here = [k, v, positions]
# +    here = [k.float(), v.float(), positions]

# %% sends_every_head of="right_as_taught"
"""Wrong: repeats shared keys for all heads first, and sends them all."""

# -    here = [k, v, positions]
# +    shared = q.shape[1] // k.shape[1]
# +    here = [k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), positions]

# %% gathers_everything of="right_as_taught"
"""Wrong: all-gathers keys and values: right, the same bytes, and every rank holds the whole sequence."""

# -    here = [k, v, positions]
# -    size = dist.get_world_size(group)
# -    for step in range(size):
# -        coming, requests = pass_on(here, group) if step < size - 1 else (None, [])
# -        partial = block_attention(q, here[0], here[1], positions, here[2])
# -        o, lse = merge(o, lse, *partial) if step else partial
# -        for request in requests:
# -            request.wait()
# -        here = coming
# -    return o, lse
# +    everything = []
# +    for one in (k, v, positions):
# +        parts = [torch.empty_like(one) for _ in range(dist.get_world_size(group))]
# +        dist.all_gather(parts, one.contiguous(), group=group)
# +        everything.append(torch.cat(parts, 0 if one.dim() == 1 else 2))
# +    return block_attention(q, everything[0], everything[1], positions, everything[2])

# %% keeps_all_blocks of="right_as_taught"
"""Wrong: a ring that keeps every block until the end."""

# -    here = [k, v, positions]
# +    here, kept = [k, v, positions], []

#              request.wait()
# +        kept.append(here)

# %% sends_to_everybody of="right_as_taught"
"""Wrong: each rank sends its own block to every other rank: the same bytes, and no ring."""

# -        coming, requests = pass_on(here, group) if step < size - 1 else (None, [])
# +        rank, coming, requests = dist.get_rank(group), None, []
# +        if step < size - 1:
# +            coming = [torch.empty_like(one) for one in here]
# +            own = (k, v, positions)
# +            requests = [dist.isend(one, group=group, group_dst=(rank + step + 1) % size) for one in own]
# +            requests += [dist.irecv(one, group=group, group_src=(rank - step - 1) % size) for one in coming]

# %% global_ranks of="right_as_taught"
"""Wrong: addresses its neighbours by their rank in the world."""

# -    requests = [dist.isend(one, group=group, group_dst=(rank + 1) % size) for one in tensors]
# +    requests = [dist.isend(one, group=group, dst=(rank + 1) % size) for one in tensors]

# %% forgets_the_subgroup of="right_as_taught"
"""Wrong: a ring over the whole world."""

#  def pass_on(tensors, group):
# +    group = None

# %% changes_its_input of="right_as_taught"
"""Wrong: scales the queries in place."""

#      o = lse = None
# +    q.mul_(1.5).div_(1.5).add_(1e-6)

# %% without_the_scale of="right_as_taught"
"""Wrong: forgets to divide by the root of the width."""

# -    scores = q.float() @ k.float().mT / q.shape[-1] ** 0.5
# +    scores = q.float() @ k.float().mT

# %% the_output_alone of="right_as_taught"
"""Wrong: returns the output without its log-sum-exp."""

# -    return o, lse
# +    return o

# %% overflows of="right_as_taught"
"""Wrong: the log of a sum of exps, as the formula is written: infinite from a log-sum-exp of 89 on."""

# -    whole = torch.logaddexp(lse, lse_block)
# +    whole = (lse.exp() + lse_block.exp()).log()

# %% right_blocking
"""Different: from right to left, even ranks send first, a sigmoid merges, as torch's own does; skips what is hidden."""

import torch
import torch.distributed as dist


def attend(q, k, v, mine, theirs):
    n = q.size(1) // k.size(1)
    which = torch.arange(q.size(1)) // n
    k, v = (one.float()[:, which] if n > 1 else one.float() for one in (k, v))
    hidden = theirs[None, :] > mine[:, None]
    s = (q.float() * q.size(-1) ** -0.5) @ k.transpose(-1, -2)
    s.masked_fill_(hidden, -1e30)
    lse = torch.logsumexp(s, -1, keepdim=True)
    return torch.exp(s - lse) @ v, lse.squeeze(-1)


def shift(one, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    came = torch.empty_like(one)
    left, right = (rank - 1) % size, (rank + 1) % size
    if rank % 2 == 0:
        dist.send(one, group=group, group_dst=left)
        dist.recv(came, group=group, group_src=right)
    else:
        work = dist.irecv(came, group=group, group_src=right)
        dist.send(one, group=group, group_dst=left)
        work.wait()
    return came


def ring_attention(q, k, v, positions, *, group):
    o, lse = attend(q, k, v, positions, positions)
    block = [k, v, positions]
    for _ in range(dist.get_world_size(group) - 1):
        block = [shift(one, group) for one in block]
        if (block[2].amin() <= positions.amax()).item():
            here, log = attend(q, block[0], block[1], positions, block[2])
            gate = torch.sigmoid(log - lse).unsqueeze(-1)
            o, lse = o - gate * (o - here), lse - torch.nn.functional.logsigmoid(lse - log)
    return o, lse


# %% skips_one_block_too_many of="right_blocking"
"""Wrong: takes the left neighbour's block for hidden."""

# -        if (block[2].amin() <= positions.amax()).item():
# +        if (block[2].amin() < positions.amin() - len(positions)).item():

# %% right_running_maximum
"""Different: one message per step, a running maximum and sum as the papers have it, the division at the end."""

import torch
import torch.distributed as dist


def ring_attention(q, k, v, positions, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    places = positions.clone()
    shared = q.shape[1] // k.shape[1]
    largest = total = weighted = None
    keys, values = k, v
    for step in range(size):
        if step:
            keys, values, places = passed(keys, values, places, rank, size, group)
        grouped = q.float().unflatten(1, (-1, shared))
        scores = torch.einsum("bgnqd,bgkd->bgnqk", grouped, keys.float()) * q.shape[-1] ** -0.5
        scores = scores.where(places <= positions.unsqueeze(1), -torch.inf)
        top = scores.amax(-1) if step == 0 else torch.maximum(largest, scores.amax(-1))
        weights = (scores - top.unsqueeze(-1)).exp()
        here = torch.einsum("bgnqk,bgkd->bgnqd", weights, values.float())
        if step == 0:
            total, weighted = weights.sum(-1), here
        else:
            shrink = (largest - top).exp()
            total, weighted = total * shrink + weights.sum(-1), weighted * shrink.unsqueeze(-1) + here
        largest = top
    return (weighted / total.unsqueeze(-1)).flatten(1, 2), (largest + total.log()).flatten(1, 2)


def passed(keys, values, places, rank, size, group):
    came = [torch.empty_like(one) for one in (keys, values, places)]
    pairs = zip((keys, values, places), came, strict=True)
    calls = []
    for out, into in pairs:
        calls.append(dist.P2POp(dist.isend, out, group=group, group_peer=(rank + 1) % size))
        calls.append(dist.P2POp(dist.irecv, into, group=group, group_peer=(rank - 1) % size))
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    return came


# %% no_mask of="right_running_maximum"
"""Wrong: every query sees every key."""

# -        scores = scores.where(places <= positions.unsqueeze(1), -torch.inf)

# %% maximum_forgotten of="right_running_maximum"
"""Wrong: a new maximum, and the old sums are not shrunk."""

# -            shrink = (largest - top).exp()
# +            shrink = torch.ones_like(top)
