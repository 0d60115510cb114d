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
