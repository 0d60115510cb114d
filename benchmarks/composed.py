"""Race our training step on several axes against a composition of torch's own parts, composed as in torchtitan.

The peer: `fully_shard` over dp, DTensor's `parallelize_module` with sequence parallelism over tp, `loss_parallel`, a
schedule of `torch.distributed.pipelining` over pp, and clipping by the global norm. Both start with the same weights,
see the same batches and alternate in one process per rank; their losses must agree.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from random import Random
from statistics import median
from typing import NamedTuple

import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel.training import next_tokens
from shardlab.hybrid import MeshTrainer, Settings
from shardlab.hybrid.part import PartOfModel
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.model.attention import Attention
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from torch import Tensor, nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

from benchmarks.device import wait_for
from benchmarks.row import Row, at_least_times
from benchmarks.tensor_parallel import lay_out_by_rank

CONFIG = GPTConfig(layers=4, hidden=256, heads=8, sequence=256, vocabulary=512, tied=False, rope=True)
BATCH, MAX_NORM, ROUNDS, WARM_UP = 8, 1.0, 15, 2
AXES = ("dp", "pp", "tp")
TORCHS = {"1f1b": "Schedule1F1B", "interleaved": "ScheduleInterleaved1F1B"}
new_optimizer = partial(torch.optim.AdamW, lr=1e-3)
Step = Callable[[Tensor, Tensor], float]
Passes = Callable[[Tensor, Tensor], Tensor]


class Layout(NamedTuple):
    """The mesh, the ZeRO stage, and the schedule of both sides.

    In torch's pipelines FSDP2 keeps weights and gradients unsharded from the first microbatch to the last, then
    communicates: it stores and sends as much as ZeRO-1. Without a pipeline it gathers weights twice, as ZeRO-3 does.
    """

    mesh: Mesh
    zero: int = 0
    schedule: str = "1f1b"
    microbatches: int = 1


LAYOUTS = [
    Layout(Mesh(dp=2, tp=2), zero=3),
    Layout(Mesh(pp=2, tp=2), microbatches=4),
    Layout(Mesh(dp=2, pp=2), zero=1, microbatches=4),
    Layout(Mesh(dp=2, pp=2), zero=1, schedule="interleaved", microbatches=4),
    Layout(Mesh(dp=2, pp=2, tp=2), zero=1, microbatches=4),
]


def measure() -> list[Row]:
    """Return medians of alternating steps; a step takes as long as on its slowest rank."""
    return rows_of(CONFIG, "cpu", "gloo")


def rows_of(config: GPTConfig, device: str, transport: str) -> list[Row]:
    """Return a row for each layout."""
    rows = []
    for layout in LAYOUTS:
        by_rank = shardlab.run(
            race, layout, config, device, ranks=layout.mesh.world, transport=transport, observe=False, timeout=900
        )
        ours, peer = (median(map(max, zip(*one, strict=True))) for one in zip(*by_rank, strict=True))
        axes = " x ".join(f"{name} {size}" for name in AXES if (size := getattr(layout.mesh, name)) > 1)
        rows.append(at_least_times(f"step, {axes}, ZeRO-{layout.zero}, {layout.schedule}, s", ours, peer, 1.0))
    return rows


def race(layout: Layout, config: GPTConfig, device: str) -> tuple[list[float], list[float]]:
    """Return seconds of our steps and of the composition's, alternating. Raises RuntimeError if their losses differ."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    whole, replica = GPT(config).to(device), layout.mesh.coordinates(dist.get_rank())["dp"]
    both = [ours(whole, layout), composed(whole, layout)]
    seconds: tuple[list[float], list[float]] = [], []
    for number in range(WARM_UP + ROUNDS):
        tokens = torch.randint(
            config.vocabulary, (BATCH, config.sequence), generator=torch.Generator().manual_seed(number)
        )
        mine = tokens.chunk(layout.mesh.dp)[replica].to(device)
        labels, losses = next_tokens(mine), [0.0, 0.0]
        for who in Random(number).sample((0, 1), 2):  # the same order on every rank
            dist.barrier()
            wait_for(device)
            began = time.perf_counter()
            losses[who] = both[who](mine, labels)
            wait_for(device)
            if number >= WARM_UP:
                seconds[who].append(time.perf_counter() - began)
        if abs(losses[0] - losses[1]) > 1e-4:
            raise RuntimeError(f"the losses of step {number} differ: {losses}")
    return seconds


def ours(whole: GPT, layout: Layout) -> Step:
    """A `MeshTrainer`."""
    settings = Settings(
        num_microbatches=layout.microbatches,
        schedule=BUILDERS[layout.schedule],
        zero=layout.zero,
        sequence_parallel=layout.mesh.tp > 1,
        max_norm=MAX_NORM,
    )
    groups = create_process_groups(layout.mesh, device=whole.token.weight.device.type)
    trainer = MeshTrainer(whole, groups, new_optimizer, settings)
    return lambda tokens, labels: trainer.step(tokens, labels).loss


# ---- the composition -------------------------------------------------------------------------------------------------


def composed(whole: GPT, layout: Layout) -> Step:
    """Build stages of the same model, split by DTensor, then by FSDP2, and put them into one of torch's schedules."""
    mesh, device = layout.mesh, whole.token.weight.device
    meshes = init_device_mesh(device.type, (mesh.pp, mesh.dp, mesh.tp), mesh_dim_names=("pp", "dp", "tp"))
    meshes["dp", "tp"]._flatten()  # one all-reduce for the norm, as torch's warning recommends
    schedule = BUILDERS[layout.schedule](mesh.pp, layout.microbatches)
    parts = {
        stage: composed_part(whole, stage, num_stages(schedule), layout, meshes)
        for stage in stages_of_rank(schedule, meshes.get_local_rank("pp"))
    }
    parameters = [parameter for part in parts.values() for parameter in part.parameters()]
    optimizer = new_optimizer(parameters)
    passes = all_passes(parts, num_stages(schedule), layout, meshes, device)

    def step(tokens: Tensor, labels: Tensor) -> float:
        with loss_parallel():
            loss = passes(tokens, labels)
        dist.all_reduce(loss)  # all stages except the last contribute 0; its tp ranks have equal losses
        clip(parameters, meshes)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item() / (mesh.dp * mesh.tp)

    return step


def composed_part(whole: GPT, stage: int, stages: int, layout: Layout, meshes: DeviceMesh) -> PartOfModel:
    """Build a stage, split over tp and dp."""
    part, tp = PartOfModel(whole, stage, stages), layout.mesh.tp
    part.positions = torch.arange(whole.config.sequence, device=whole.token.weight.device)
    if tp > 1:
        for module in part.modules():
            if isinstance(module, Attention):
                lay_out_by_rank(module, tp)
        parallelize_module(part, meshes["tp"], {name: how for name, how in PLAN.items() if has(part, name)})
    if layout.zero:
        keeps = layout.zero == 1
        for block in part.blocks.values():
            fully_shard(block, mesh=meshes["dp"], reshard_after_forward=not keeps)
        fully_shard(part, mesh=meshes["dp"], reshard_after_forward=not keeps)
    return part


PLAN = {
    "token": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "blocks.*.norm_1": SequenceParallel(use_local_output=True),
    "blocks.*.norm_2": SequenceParallel(use_local_output=True),
    "blocks.*.attention.qkv": ColwiseParallel(input_layouts=Shard(1)),
    "blocks.*.attention.out": RowwiseParallel(output_layouts=Shard(1)),
    "blocks.*.up": ColwiseParallel(input_layouts=Shard(1)),
    "blocks.*.down": RowwiseParallel(output_layouts=Shard(1)),
    "norm": SequenceParallel(use_local_output=True),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
}


def has(part: nn.Module, name: str) -> bool:
    """Return whether a stage has the modules of one line of the plan."""
    return getattr(part, name.partition(".")[0]) is not None


def all_passes(
    parts: dict[int, PartOfModel], stages: int, layout: Layout, meshes: DeviceMesh, device: torch.device
) -> Passes:
    """Run all microbatches forward and backward. Returns a replica's mean loss in the last stage, else 0."""
    sequence = next(iter(parts.values())).config.sequence
    num_tokens = BATCH // layout.mesh.dp * (sequence - 1)  # the last token of a sequence has no label

    def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / num_tokens

    if layout.mesh.pp == 1:

        def alone(tokens: Tensor, labels: Tensor) -> Tensor:
            loss = loss_of(parts[0](tokens), labels)
            loss.backward()
            return local(loss)

        return alone
    group = meshes.get_group("pp")
    staged = [pipelining.PipelineStage(part, stage, stages, device, group=group) for stage, part in parts.items()]
    kind = getattr(pipelining, TORCHS[layout.schedule])
    given = staged if layout.schedule == "interleaved" else staged[0]
    schedule = kind(given, layout.microbatches, loss_fn=loss_of, scale_grads=False)

    def pipelined(tokens: Tensor, labels: Tensor) -> Tensor:
        losses: list[Tensor] = []
        is_last = stages - 1 in parts
        arguments = (tokens,) if 0 in parts else ()
        schedule.step(*arguments, target=labels if is_last else None, losses=losses if is_last else None)
        return torch.stack([local(one) for one in losses]).sum() if is_last else torch.zeros((), device=device)

    return pipelined


def local(loss: Tensor) -> Tensor:
    """Return a loss as a plain number on this rank."""
    return (loss.full_tensor() if isinstance(loss, DTensor) else loss).detach()


@torch.no_grad()
def clip(parameters: list[nn.Parameter], meshes: DeviceMesh) -> None:
    """Clip by the norm over all axes."""
    gradients = [one.grad for one in parameters if one.grad is not None]
    norm = local(torch.nn.utils.get_total_norm(gradients))
    squares = norm.square()
    dist.all_reduce(squares, group=meshes.get_group("pp"))
    torch.nn.utils.clip_grads_with_norm_(parameters, MAX_NORM, squares.sqrt())
