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
