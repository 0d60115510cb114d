"""Measurements of a step: the peak for the MFU, memory, and messages next to the formulas for what this rank sends.

The formulas per layer and microbatch are those of `costs`; the trainer knows which layers, neighbors and parameters
this rank has. They leave out messages that do not grow with the model (agreement on the batch, the loss, the norm, the
routers' loads) and what the embedding, the head and partial gradients send over tp, which matters for small models.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch.distributed as dist

from shardlab.costs import traffic
from shardlab.costs.axis_traffic import BF16, cp_layer_bytes, cp_passes, ep_layer_bytes, tp_layer_bytes
from shardlab.costs.clock.calibration import read_calibration
from shardlab.costs.layout import Layout, Recompute
from shardlab.costs.models.flops import model_flops_per_token, utilisation
from shardlab.costs.models.model import Transformer
from shardlab.hybrid.groups import WORLD, names, sent_by_axis
from shardlab.hybrid.mesh_trainer import MeshTrainer, Step
from shardlab.mesh.process_groups import GRADIENTS
from shardlab.meter.alive import alive
from shardlab.meter.held import storage_bytes
from shardlab.meter.record import Bill, record
from shardlab.pipeline_parallel.execution import measured
from shardlab.pipeline_parallel.schedule import stages_of_rank
from shardlab.pipeline_parallel.traces import to_trace
from shardlab.train.build import transformer_of
from shardlab.train.recipe import Recipe

BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}


def layout_of(recipe: Recipe, trainer: MeshTrainer) -> Layout:
    """The recipe as a layout for `costs`. It distinguishes schedules only by what they send and save."""
    mesh, step = trainer.mesh, recipe.step
    again: Recompute = "full" if step.recompute == "stage" else step.recompute  # type: ignore[assignment]
    return Layout(
        tp=mesh.tp,
        pp=mesh.pp,
        dp=mesh.dp,
        cp=mesh.cp,
        ep=mesh.ep,
        microbatch=step.batch // step.microbatches // mesh.dp,
        num_microbatches=step.microbatches,
        sequence_parallel=step.sequence_parallel and mesh.tp > 1,
        zero=step.zero,
        recompute=again,
        schedule="gpipe" if step.schedule == "gpipe" else "1f1b",
        context="ulysses" if step.context == "ulysses" else "ring",
    )


def predicted_by_axis(recipe: Recipe, trainer: MeshTrainer) -> dict[str, float]:
    """Bytes that this rank sends in a step, keyed by the names that `sent_by_axis` uses."""
    layout, model = layout_of(recipe, trainer), transformer_of(recipe)
    wide = BYTES[recipe.step.dtype] / BF16  # the formulas assume bf16
    layers = sum(len(part.blocks) for part in trainer.parts.values()) * layout.num_microbatches * wide
    again = 1 if layout.recompute == "full" else 0
    of_tp = tp_layer_bytes(model, layout) / (2 if model.experts else 1)  # MoE layers send nothing over tp
    by_axes = {
        ("tp",): layers * of_tp * (2 + again),
        ("cp",): layers * cp_layer_bytes(model, layout) * sum(cp_passes(layout)),
        ("ep",): layers * ep_layer_bytes(model, layout) * (2 + again),
        ("pp",): _between_stages(trainer, layout) * model.hidden * BYTES[recipe.step.dtype],
        GRADIENTS: _of_parameters(recipe, trainer, is_expert=False),
        ("edp",): _of_parameters(recipe, trainer, is_expert=True),
    }
    known, found = names(trainer.groups), {}
    for axes, num_bytes in by_axes.items():
        if num_bytes:
            name = next((name for made, name in known.items() if set(made) == set(axes)), "-".join(axes))
            found[name] = found.get(name, 0.0) + num_bytes
    return found


def _between_stages(trainer: MeshTrainer, layout: Layout) -> float:
    """The number of positions whose activations or gradients this rank sends to other ranks of its pipeline."""
    rank = dist.get_rank(trainer.groups.of("pp"))
    mine = {*stages_of_rank(trainer.schedule, rank)}
    forward = sum(stage + 1 not in mine for stage in mine if stage + 1 < trainer.num_stages)
    backward = sum(stage - 1 not in mine for stage in mine if stage > 0)
    tokens = layout.microbatch * trainer.config.sequence / layout.cp
    return (forward + backward) * layout.num_microbatches * tokens / (layout.tp if layout.sequence_parallel else 1)


def _of_parameters(recipe: Recipe, trainer: MeshTrainer, *, is_expert: bool) -> float:
    """Bytes to reduce gradients and gather weights over dp and cp, or over edp for experts."""
    numbers = sum(p.numel() for p, place in trainer.places.items() if place.is_expert == is_expert)
    mesh, zero, width = trainer.mesh, recipe.step.zero, BYTES[recipe.step.dtype]
    sharers = mesh.tp * mesh.cp * mesh.dp // (mesh.ep * mesh.expert_tp) if is_expert else mesh.dp * mesh.cp
    main = 8 if recipe.step.dtype == "float64" else 4  # bytes of a main gradient
    if zero == 0:
        return traffic.ring_all_reduce_bytes(sharers, numbers * main)
    microbatches = recipe.step.microbatches if zero > 1 else 1
    reduced = traffic.ring_reduce_scatter_bytes(sharers, numbers * (width if zero > 1 else main)) * microbatches
    gathers = 2 * microbatches if zero == 3 else 1
    return reduced + gathers * traffic.ring_all_gather_bytes(sharers, numbers * width)


# ---- The peak for the MFU (model FLOPs utilization): the matrix products that this machine can do per second ---------


def peak_flops(recipe: Recipe, ranks: int) -> tuple[float, str]:
    """FLOP/s of all ranks together and the source of the number; if it is unknown, 0.0 and the reason.

    Measured: the fastest square matrix product in the recipe's dtype on one core, times the cores that the ranks use.
    """
    if recipe.log.peak_flops:
        return recipe.log.peak_flops * ranks, "given in log.peak_flops"
    try:
        here = read_calibration(None)
    except ValueError:
        return 0.0, "unknown: run `shardlab calibrate`, or give log.peak_flops"
    rates = here.matmul.get(recipe.step.dtype)
    if not rates:
        return 0.0, f"unknown: `shardlab calibrate` measured {', '.join(here.matmul)} here, not {recipe.step.dtype}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(rates.values()) * min(ranks, cores), "the fastest product that `shardlab calibrate` measured here"


def mfu(model: Transformer, tokens: int, seconds: float, peak: float) -> float | None:
    """The model's FLOP/s as a share of the peak; None without a peak."""
    return utilisation(model_flops_per_token(model), tokens, seconds, 1, peak) if peak else None


# A detailed look at one step: which messages went over which axis, when every slot ran, and the peak memory


@dataclass(frozen=True)
class OfRank:
    """One rank's measurements: bytes sent and predicted by axis, bytes of states, and peak bytes alive."""

    sent: dict[str, float]
    predicted: dict[str, float]
    states: int
    peak: int


@dataclass
class Measurement:
    """Measures on every rank and gathers the results."""

    recipe: Recipe
    trainer: MeshTrainer
    trace: str = ""  # for https://ui.perfetto.dev, on the first rank
    by_rank: list[OfRank] = field(default_factory=list)
    _sent: dict[str, float] = field(default_factory=dict)

    def messages(self, step: Callable[[], Step]) -> Step:
        """Do a step and record its messages and slots."""
        with record() as bill:
            told = step()
        self._sent = sent_by_axis(bill.events, self.trainer.groups)
        slots = self._gathered((self.trainer.times, _calls(bill)))
        self.trace = trace_of(self.trainer, slots)
        return told

    def memory(self, step: Callable[[], Step]) -> Step:
        """Do a step and record how much memory was alive; afterwards every rank has all ranks' measurements."""
        states = self._states()
        with alive(states) as watched:
            told = step()
        mine = OfRank(self._sent, predicted_by_axis(self.recipe, self.trainer), storage_bytes(states), watched.peak)
        self.by_rank = self._gathered(mine)
        return told

    def table(self) -> list[str]:
        """Lines for people: for each axis, the rank that sends most, with the formula's value for that rank."""
        lines = ["bytes per step of the rank that sends most      measured      formula"]
        for name in sorted({name for one in self.by_rank for name in (*one.sent, *one.predicted)}):
            most = max(self.by_rank, key=lambda one: one.sent.get(name, 0.0))
            if (sent := most.sent.get(name, 0.0)) or name in most.predicted:
                formula = f"{most.predicted[name]:13,.0f}" if name in most.predicted else "   small ones"
                lines.append(f"  {name:<40} {sent:13,.0f} {formula}")
        states, peak = (max(getattr(one, what) for one in self.by_rank) for what in ("states", "peak"))
        lines.append(f"weights, masters, moments {states:,} bytes, with activations and gradients {peak:,} at most")
        return lines

    def plain(self) -> dict[str, Any]:
        """The same as plain data for JSON; names: for each axis, the name under which its bytes are counted."""
        known = {"-".join(axes): name for axes, name in names(self.trainer.groups).items()}
        return {"measured": [asdict(one) for one in self.by_rank], "names": known}

    def _states(self) -> list:
        """Weights, masters and the optimizer's states."""
        kept: list = [one for part in self.trainer.parts.values() for one in part.parameters()]
        kept += self.trainer.masters()
        for optimizer in self.trainer.optimizers:
            kept += [value for state in optimizer.state.values() for value in state.values() if hasattr(value, "shape")]
        return kept

    def _gathered(self, mine: Any) -> list[Any]:
        group = self.trainer.groups.of(*WORLD)
        by_rank: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(by_rank, mine, group=group)
        return by_rank


def _calls(bill: Bill) -> list[tuple[str, str, float, float]]:
    """(kind, place and size, begin, end) of each call, in seconds of this machine's clock."""
    return [
        (event.kind, f"{event.where}, {event.payload_bytes:,} bytes", event.begin, event.end or event.begin)
        for event in bill.events
    ]


def trace_of(trainer: MeshTrainer, by_rank: list[Any]) -> str:
    """A trace of all ranks: one track per rank for its computation, and one for its messages."""
    ranks = range(trainer.mesh.world)
    schedule = [trainer.schedule[trainer.mesh.coordinates(rank)["pp"]] for rank in ranks]
    times = [times for times, _ in by_rank]
    first = min(begins[0] for begins, _ in times if begins)
    trace = json.loads(to_trace(measured(schedule, times)))
    for rank, (_, calls) in enumerate(by_rank):
        track = len(ranks) + rank
        name = {"name": f"rank {rank}, messages"}
        trace["traceEvents"].append({"ph": "M", "name": "thread_name", "pid": 0, "tid": track, "args": name})
        for kind, where, begin, end in calls:
            box = {"name": kind, "cat": "message", "args": {"where": where}, "ph": "X", "pid": 0, "tid": track}
            trace["traceEvents"].append(box | {"ts": (begin - first) * 1e6, "dur": (end - begin) * 1e6})
    return json.dumps(trace)
