"""Connect every pair of ranks that will exchange messages, before the first step on GPUs.

NCCL connects two ranks at their first message, and blocks both hosts until the connection is made. In the middle of a
pipeline this can deadlock: one rank blocks until its neighbor posts, while the neighbor's host waits for a kernel to be
loaded, which waits for the GPU, which waits for a message from the first rank. So all ranks connect here, in one batch.
"""

from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from shardlab.pipeline_parallel.communication import MessageBatch, Program

Pair = tuple[int, int]  # source, destination
_connected: WeakKeyDictionary[dist.ProcessGroup, set[Pair]] = WeakKeyDictionary()


def pairs_of(program: Program) -> set[Pair]:
    """All (source, destination) pairs in the whole program."""
    batches = (step for steps in program for step in steps if isinstance(step, MessageBatch))
    return {(message.source, message.destination) for batch in batches for message in batch.messages}


def connect(program: Program, device: torch.device, *, group: dist.ProcessGroup | None) -> None:
    """Send one element over each connection that this program needs and the group has not made yet.

    Every rank must call it. device: this rank's GPU.
    """
    own = dist.group.WORLD if group is None else group
    assert own is not None
    known = _connected.setdefault(own, set())
    new = sorted(pairs_of(program) - known)
    if not new:
        return
    rank, element = dist.get_rank(group), torch.zeros(1, device=device)
    dist.all_reduce(element, group=group)  # one collective before any point-to-point message
    operations = [
        dist.P2POp(dist.isend, element, group=group, group_peer=destination)
        if rank == source
        else dist.P2POp(dist.irecv, torch.empty_like(element), group=group, group_peer=source)
        for source, destination in new
        if rank in (source, destination)
    ]
    for work in dist.batch_isend_irecv(operations) if operations else ():
        work.wait()
    torch.cuda.synchronize(device)
    known.update(new)
