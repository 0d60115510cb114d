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
