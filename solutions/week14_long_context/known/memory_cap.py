# %% right_running_maximum
"""Different: tiles of queries and keys, a running maximum; tiles that no query may see are left out."""

import torch
import torch.distributed as dist


def passed(tensors, group):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    came = [torch.empty_like(one) for one in tensors]
    work = [dist.P2POp(dist.irecv, one, group=group, group_peer=(rank - 1) % size) for one in came]
    work += [dist.P2POp(dist.isend, one, group=group, group_peer=(rank + 1) % size) for one in tensors]
    for request in dist.batch_isend_irecv(work):
        request.wait()
    return came


def attend_under_cap(q, k, v, positions, cap_bytes, *, group):
    size, shared = dist.get_world_size(group), q.size(1) // k.size(1)
    total = torch.zeros(*q.shape[:3], 1)
    weighted, top = torch.zeros(q.shape), torch.full_like(total, -1e30)
    block, rows = [k, v, positions], 128
    for step in range(size):
        if step:
            block = passed(block, group)
        for at in range(0, q.size(2), rows):
            mine = slice(at, at + rows)
            for start in range(0, k.size(2), 512):
                keys, values, theirs = (
                    block[0][:, :, start : start + 512],
                    block[1][:, :, start : start + 512],
                    block[2][start : start + 512],
                )
                if theirs.min() > positions[mine].max():
                    continue
                grouped = q[:, :, mine].unflatten(1, (-1, shared))
                scores = (grouped @ keys.unsqueeze(2).mT).flatten(1, 2) * q.size(-1) ** -0.5
                scores.masked_fill_(theirs > positions[mine].unsqueeze(1), -torch.inf)
                higher = torch.maximum(top[:, :, mine], scores.amax(-1, keepdim=True))
                shrink = (top[:, :, mine] - higher).exp()
                weights = scores.sub_(higher).exp_()
                here = (weights.unflatten(1, (-1, shared)) @ values.unsqueeze(2)).flatten(1, 2)
                total[:, :, mine] = total[:, :, mine] * shrink + weights.sum(-1, keepdim=True)
                weighted[:, :, mine] = weighted[:, :, mine] * shrink + here
                top[:, :, mine] = higher
    return weighted / total


# %% tiles_kept of="right_running_maximum"
"""Wrong: makes all tiles first, and keeps their weights."""

# -    block, rows = [k, v, positions], 128
# +    block, rows, kept = [k, v, positions], 128, []

#                  here = (weights.unflatten(1, (-1, shared)) @ values.unsqueeze(2)).flatten(1, 2)
# +                kept.append(weights)

# %% keys_of_the_tile_alone of="right_running_maximum"
"""Wrong: each tile of queries against its own tile of keys."""

# -                if theirs.min() > positions[mine].max():
# +                if theirs.min() > positions[mine].max() or start // 512 != at // 512:

# %% skips_one_tile_too_many of="right_running_maximum"
"""Wrong: leaves out a tile of keys that is seen in part."""

# -                if theirs.min() > positions[mine].max():
# +                if theirs.max() > positions[mine].max():

# %% maximum_forgotten of="right_running_maximum"
"""Wrong: a new maximum, and the old sums are not shrunk."""

# -                shrink = (top[:, :, mine] - higher).exp()
# +                shrink = torch.ones_like(higher)

# %% forgets_the_subgroup of="right_running_maximum"
"""Wrong: a ring over the whole world."""

#  def passed(tensors, group):
# +    group = None

# %% changes_its_input of="right_running_maximum"
"""Wrong: scales the queries in place."""

#      block, rows = [k, v, positions], 128
# +    q.mul_(1 + 1e-6)

# %% right_tiles_of_queries
"""Different: a ring whose blocks meet a few queries at a time; merged by log-sum-exps."""

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


def attend_under_cap(q, k, v, positions, cap_bytes, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    o, lse = torch.zeros(q.shape), torch.full(q.shape[:-1], -torch.inf)
    tile, here = 64, [k, v, positions]
    for step in range(size):
        coming, requests = here, []
        if step < size - 1:
            coming = [torch.empty_like(one) for one in here]
            requests = [dist.isend(one, group=group, group_dst=(rank + 1) % size) for one in here]
            requests += [dist.irecv(one, group=group, group_src=(rank - 1) % size) for one in coming]
        for at in range(0, len(positions), tile):
            now = slice(at, at + tile)
            o_tile, lse_tile = block_attention(q[:, :, now], here[0], here[1], positions[now], here[2])
            whole = torch.logaddexp(lse[:, :, now], lse_tile)
            o[:, :, now] *= (lse[:, :, now] - whole).exp()[..., None]
            o[:, :, now] += o_tile * (lse_tile - whole).exp()[..., None]
            lse[:, :, now] = whole
        for request in requests:
            request.wait()
        here = coming
    return o


# %% whole_blocks of="right_tiles_of_queries"
"""Wrong: no tiles: the scores of a whole block at once."""

# -    tile, here = 64, [k, v, positions]
# +    tile, here = len(positions), [k, v, positions]

# %% tiles_too_large of="right_tiles_of_queries"
"""Wrong: half a block at a time."""

# -    tile, here = 64, [k, v, positions]
# +    tile, here = 1024, [k, v, positions]

# %% gathers_everything of="right_tiles_of_queries"
"""Wrong: gathers all keys: the tiles are small, and the scores of a tile against all keys are not."""

# -    tile, here = 64, [k, v, positions]
# +    tile, here = 512, []
# +    for one in (k, v, positions):
# +        parts = [torch.empty_like(one) for _ in range(size)]
# +        dist.all_gather(parts, one, group=group)
# +        here.append(torch.cat(parts, 2 if one.dim() == 4 else 0))
# +    size = 1

# %% last_tile_lost of="right_tiles_of_queries"
"""Wrong: leaves out the queries that the tiles do not divide."""

# -        for at in range(0, len(positions), tile):
# +        for at in range(0, len(positions) // tile * tile or len(positions), tile):

# %% first_tile_alone of="right_tiles_of_queries"
"""Wrong: the positions of the first tile for all tiles."""

# -            o_tile, lse_tile = block_attention(q[:, :, now], here[0], here[1], positions[now], here[2])
# +            o_tile, lse_tile = block_attention(q[:, :, now], here[0], here[1], positions[: positions[now].numel()], here[2])

# %% local_softmax of="right_tiles_of_queries"
"""Wrong: a softmax of its own for each block, averaged."""

# -            o[:, :, now] *= (lse[:, :, now] - whole).exp()[..., None]
# -            o[:, :, now] += o_tile * (lse_tile - whole).exp()[..., None]
# +
# +            o[:, :, now] += o_tile / size

# %% own_block_alone of="right_tiles_of_queries"
"""Wrong: sends nothing."""

# -    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    rank, size = 0, 1

# %% zig_zag_without_positions of="right_tiles_of_queries"
"""Wrong: masks as if every rank had one piece of the sequence, in order."""

#      rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    positions = torch.arange(len(positions)) + rank * len(positions)

# %% no_mask of="right_tiles_of_queries"
"""Wrong: every query sees every key."""

# -    scores = scores.masked_fill(k_positions > q_positions[:, None], -torch.inf)
# +    scores = scores.masked_fill(k_positions < 0, -torch.inf)

# %% every_head_sent of="right_tiles_of_queries"
"""Wrong: repeats shared keys before they travel."""

# -    tile, here = 64, [k, v, positions]
# +    shared = q.shape[1] // k.shape[1]
# +    tile, here = 64, [k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), positions]

# %% borrows_the_answer of="right_tiles_of_queries"
"""Wrong: calls the package's own ring, tiles and all."""

#  import torch.distributed as dist
# +from shardlab.context_parallel import attend, zigzag

#      rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    if size > 1:
# +        return attend(q, k, v, layout=zigzag(size * len(positions), size), group=group)

# %% tiles_above_the_cap of="right_tiles_of_queries"
"""Wrong: tiles so large that they pass the cap by less than the code of libraries takes."""

# -    tile, here = 64, [k, v, positions]
# +    tile, here = 240, [k, v, positions]
