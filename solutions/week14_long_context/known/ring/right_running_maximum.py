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
