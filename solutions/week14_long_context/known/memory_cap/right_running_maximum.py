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
