"""Functions to run on ranks: every collective and every message, with or without a wait."""

import torch
import torch.distributed as dist

SINGLE = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
SCATTER = "reduce_scatter_single" if hasattr(dist, "reduce_scatter_single") else "reduce_scatter_tensor"
COLLECTIVES = {
    "all_reduce": lambda t, n, **how: dist.all_reduce(t, **how),
    "all_reduce_coalesced": lambda t, n, **how: dist.all_reduce_coalesced([t], **how),
    "broadcast": lambda t, n, **how: dist.broadcast(t, group_src=0, **how),
    "reduce": lambda t, n, **how: dist.reduce(t, group_dst=0, **how),
    "all_gather": lambda t, n, **how: dist.all_gather([torch.empty_like(t) for _ in range(n)], t, **how),
    SINGLE: lambda t, n, **how: getattr(dist, SINGLE)(t.new_empty(n * len(t)), t, **how),
    "reduce_scatter": lambda t, n, **how: dist.reduce_scatter(
        torch.empty_like(t), [t.clone() for _ in range(n)], **how
    ),
    SCATTER: lambda t, n, **how: getattr(dist, SCATTER)(torch.empty_like(t), t.repeat(n), **how),
    "gather": lambda t, n, **how: dist.gather(
        t, [torch.empty_like(t) for _ in range(n)] if dist.get_rank() == 0 else None, group_dst=0, **how
    ),
    "scatter": lambda t, n, **how: dist.scatter(
        t, [t.clone() for _ in range(n)] if dist.get_rank() == 0 else None, group_src=0, **how
    ),
    "all_to_all_single": lambda t, n, **how: dist.all_to_all_single(t.new_empty(n * len(t)), t.repeat(n), **how),
    "all_to_all": lambda t, n, **how: dist.all_to_all(
        [torch.empty_like(t) for _ in range(n)], [t.clone() for _ in range(n)], **how
    ),
    "barrier": lambda t, n, **how: dist.barrier(**how),
}
NO_FUTURE = ("reduce_scatter", SCATTER)  # gloo's have no future, and complete only after a wait
FUTURE = "all_reduce_coalesced"  # torch returns no handle here, only a future
OBJECTS = {
    "all_gather_object": lambda n, group: dist.all_gather_object([None] * n, 1, group=group),
    "broadcast_object_list": lambda n, group: dist.broadcast_object_list([1], group_src=0, group=group),
    "gather_object": lambda n, group: dist.gather_object(1, None, group_dst=0, group=group),
    "scatter_object_list": lambda n, group: dist.scatter_object_list([None], None, group_src=0, group=group),
    "monitored_barrier": lambda n, group: dist.monitored_barrier(group=group),
}


def dropped(kind):
    """One asynchronous collective whose handle is dropped."""
    COLLECTIVES[kind](torch.ones(4), dist.get_world_size(), async_op=True)


def every_kind_dropped():
    for kind in COLLECTIVES:
        dropped(kind)


def every_kind_looked_after(how):
    """Every collective and message, with handles that are all waited for in the same way."""
    size, peer = dist.get_world_size(), 1 - dist.get_rank()
    kinds = [
        kind for kind in COLLECTIVES if kind != FUTURE and not (how in ("future", "polling") and kind in NO_FUTURE)
    ]
    works = [COLLECTIVES[kind](torch.ones(4), size, async_op=True) for kind in kinds]
    works += [dist.irecv(torch.empty(4), peer), dist.isend(torch.ones(4), peer)]
    pairs = [(dist.isend, torch.ones(2)), (dist.irecv, torch.empty(2))]
    works += dist.batch_isend_irecv([dist.P2POp(call, tensor, peer) for call, tensor in pairs])
    for work in works:
        if work in works[-4:] or how == "wait":  # gloo's messages have no future, and complete only after a wait
            work.wait()
        elif how == "another handle":
            same = [work]
            same[0].wait()
        elif how == "polling":
            while not work.is_completed():
                pass
        else:
            work.get_future().wait()


def every_kind_synchronous():
    """Without handles. The waits inside torch do not count as the program's."""
    size = dist.get_world_size()
    for collective in COLLECTIVES.values():
        collective(torch.ones(4), size)
    dist.all_gather_object([None] * size, "text")
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as coalesced:
        for _ in range(2):
            dist.all_reduce(torch.ones(4))
    coalesced.wait()
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    ddp(torch.ones(2, 4)).sum().backward()


def dropped_messages(batch):
    peer, mine, theirs = 1 - dist.get_rank(), torch.ones(4), torch.empty(4)
    if batch:
        dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, theirs, peer)])
    elif dist.get_rank() == 0:
        dist.isend(mine, peer)
    else:
        dist.irecv(theirs, peer)
    dist.barrier()


def outside(kinds):
    """Calls from rank 2 on a group of ranks 0 and 1."""
    group = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        return
    for kind in kinds:
        if kind in OBJECTS:
            OBJECTS[kind](2, group)
        else:
            COLLECTIVES[kind](torch.ones(4), 2, group=group)


def outside_messages(kind):
    group = dist.new_group([0, 1])
    if dist.get_rank() == 2:
        getattr(dist, kind)(torch.ones(4), 0, group=group)
