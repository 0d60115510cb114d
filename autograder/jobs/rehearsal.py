"""Run a rank's first steps once, before any rank is forked.

Torch and Python create much on first use: operator lookups, caches, specialized code. What is created before a fork is
shared by all ranks; after a fork, every rank creates its own copy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.meter.record import recording
from torch.testing._internal.distributed.fake_pg import FakeStore

from autograder.jobs import parcels, plain


def rehearse() -> None:
    """Read a message, use tensors, communicate in a fake group, encode a reply, and leave the group."""
    given = plain.decode(plain.encode({"args": [torch.ones(6), [torch.ones(4, dtype=torch.bfloat16), 2, "text"]]}))
    tensors = [given["args"][0], given["args"][1][0]]
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        group = dist.new_group([0, 1])
        with recording(), meter.record() as bill:
            for tensor in tensors:
                _talk(_in_a_file(tensor), group)
    finally:
        dist.destroy_process_group()
    plain.parts(given | {"kinds": bill.kinds, "events": [[event.kind, *event.members] for event in bill.events]})


def _in_a_file(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor in file-backed memory, like a rank's inputs."""
    if sys.platform != "linux":
        return tensor
    file = parcels.anonymous()
    os.ftruncate(file, tensor.nbytes)
    memory: Any = torch.UntypedStorage.from_file(f"/proc/self/fd/{file}", shared=True, nbytes=tensor.nbytes)
    os.close(file)
    there = torch.empty(0, dtype=torch.uint8).set_(memory)[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)
    there.copy_(tensor)
    return there


def _talk(tensor: torch.Tensor, group: Any) -> None:
    """Call every kind of message and collective, and do the arithmetic around them."""
    halves = [half.contiguous() for half in (2 * tensor).clone().view(-1).chunk(2)]
    whole = torch.cat(halves)
    calls: list[Callable[[], Any]] = [
        lambda: dist.send(halves[0], group_dst=1, group=group),
        lambda: dist.recv(halves[1], group_src=1, group=group),
        lambda: dist.isend(halves[0], group_dst=1, group=group),
        lambda: dist.irecv(halves[1], group_src=1, group=group),
        lambda: dist.broadcast(whole, group_src=0, group=group),
        lambda: dist.all_reduce(whole, group=group),
        lambda: dist.all_gather(halves, halves[0], group=group),
        lambda: dist.reduce_scatter(halves[0], halves, group=group),
        lambda: dist.all_to_all_single(whole, whole.clone(), group=group),
    ]
    for call in calls:
        work = call()
        if hasattr(work, "wait"):
            work.wait()
    halves[0] += halves[1]
    halves[1].copy_(halves[0] / 2)
    torch.empty_like(whole).reshape(2, -1)[0].sum().item()
