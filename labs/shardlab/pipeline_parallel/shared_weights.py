"""Weights that several ranks hold: after the last W their gradients are added up, once."""

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from shardlab.pipeline_parallel.schedule import Schedule, stages_of_rank
from shardlab.pipeline_parallel.stages import Stage


def add_gradients(parameters: Sequence[nn.Parameter], peer: int, *, group: dist.ProcessGroup | None) -> None:
    """Add up the gradients of weights that this rank and `peer` both hold. Both call it, with the weights in one order.

    For an embedding that the last stage uses again: call it after `execute` on the first and the last rank. Where one
    rank holds both stages (V schedules, DualPipe), let both modules have the same parameter; then there is nothing to
    call. Both ranks add in the same order: what they hold stays equal to the bit.
    """
    rank = dist.get_rank(group)
    operations, sums = [], []
    for parameter in parameters:
        mine = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        theirs = torch.empty_like(mine)
        operations.append(dist.P2POp(dist.isend, mine, group=group, group_peer=peer))
        operations.append(dist.P2POp(dist.irecv, theirs, group=group, group_peer=peer))
        sums.append((parameter, mine, theirs) if rank < peer else (parameter, theirs, mine))
    if not operations:
        return
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for parameter, first, second in sums:
        parameter.grad = first + second


def add_twin_gradients(schedule: Schedule, stages: Mapping[int, Stage], *, group: dist.ProcessGroup | None) -> None:
    """Add up the gradients of stages that two ranks hold (DualPipe): each copy has seen half of the microbatches."""
    rank = dist.get_rank(group)
    by_peer: dict[int, dict[nn.Parameter, None]] = {}  # a weight of two stages is one weight
    for stage in stages_of_rank(schedule, rank):
        twins = [other for other in range(len(schedule)) if other != rank and stage in stages_of_rank(schedule, other)]
        if twins:
            by_peer.setdefault(twins[0], {}).update(dict.fromkeys(stages[stage].parameters()))
    for peer, parameters in sorted(by_peer.items()):
        add_gradients(list(parameters), peer, group=group)


def average_over_replicas(stages: Mapping[int, Stage]) -> None:
    """Let torch's DDP average the gradients of the stages that it wraps, once for the step.

    Its all-reduce starts from hooks on gradients. They were off for every microbatch; now a backward of zeros runs
    through all of them. `prepare_for_backward` is how torch.distributed.pipelining tells DDP of its last backward.
    """
    for _, stage in sorted(stages.items()):
        module = getattr(stage, "module", None)
        if isinstance(module, DistributedDataParallel):
            uses = [parameter.view_as(parameter) for parameter in stage.parameters()]  # a graph that DDP can search
            module.reducer.prepare_for_backward(uses)
            torch.autograd.backward(uses, [torch.zeros_like(use) for use in uses])
