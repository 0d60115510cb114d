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
