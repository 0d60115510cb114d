"""Sum the gradients of weights that several ranks hold, once, after the last W."""

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from shardlab.pipeline_parallel.schedule import Schedule, stages_of_rank
from shardlab.pipeline_parallel.stages import Stage


def add_gradients(parameters: Sequence[nn.Parameter], peer: int, *, group: dist.ProcessGroup | None) -> None:
    """Sum the gradients of weights that this rank and `peer` both hold. Both call it, with weights in the same order.

    For an embedding that the last stage uses again, call it after `execute` on the first and the last rank. If one rank
    holds both stages (V schedules, DualPipe), let both modules share the parameter instead; no call is needed then. The
    results on both ranks are bitwise equal. A weight that neither rank used keeps no gradient, so that no optimizer
    changes it.
    """
    if not parameters:
        return
    is_used = torch.tensor([one.grad is not None for one in parameters], device=parameters[0].device).to(torch.uint8)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
    add_tensors([is_used, *(one.grad for one in parameters if one.grad is not None)], peer, group=group)
    for parameter, times in zip(parameters, is_used.tolist(), strict=True):
        if not times:
            parameter.grad = None


@torch.no_grad()
def add_tensors(tensors: Sequence[Tensor], peer: int, *, group: dist.ProcessGroup | None) -> None:
    """Add the peer's contiguous tensors to this rank's, in place. Both ranks call it with tensors of equal sizes."""
    others = [torch.empty_like(one) for one in tensors]
    operations = []
    for mine, theirs in zip(tensors, others, strict=True):
        operations.append(dist.P2POp(dist.isend, mine, group=group, group_peer=peer))
        operations.append(dist.P2POp(dist.irecv, theirs, group=group, group_peer=peer))
    for work in dist.batch_isend_irecv(operations) if operations else ():
        work.wait()
    for mine, theirs in zip(tensors, others, strict=True):
        mine.add_(theirs)  # a + b equals b + a bitwise


def add_twin_gradients(schedule: Schedule, stages: Mapping[int, Stage], *, group: dist.ProcessGroup | None) -> None:
    """Sum the gradients of stages that two ranks hold (DualPipe), each of which saw half of the microbatches."""
    rank = dist.get_rank(group)
    by_peer: dict[int, dict[nn.Parameter, None]] = {}  # a weight shared by two stages counts once
    for stage in stages_of_rank(schedule, rank):
        twins = [other for other in range(len(schedule)) if other != rank and stage in stages_of_rank(schedule, other)]
        if twins:
            by_peer.setdefault(twins[0], {}).update(dict.fromkeys(stages[stage].parameters()))
    for peer, parameters in sorted(by_peer.items()):
        add_gradients(list(parameters), peer, group=group)


def average_over_replicas(stages: Mapping[int, Stage]) -> None:
    """Let torch's DDP average the gradients of the stages that it wraps, once per step.

    Gradient hooks start DDP's all-reduce. They were disabled for every microbatch, so a backward of zeros now runs
    through all of them. torch.distributed.pipelining also uses `prepare_for_backward` to announce the last backward.
    """
    for _, stage in sorted(stages.items()):
        module = getattr(stage, "module", None)
        if isinstance(module, DistributedDataParallel):
            uses = [parameter.view_as(parameter) for parameter in stage.parameters()]  # a graph that DDP can search
            module.reducer.prepare_for_backward(uses)
            torch.autograd.backward(uses, [torch.zeros_like(use) for use in uses])
