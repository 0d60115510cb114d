"""Measurements of a step: the peak for the MFU, its messages and its memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch.distributed as dist

from shardlab.costs.clock.calibration import read_calibration
from shardlab.costs.models.flops import model_flops_per_token, utilisation
from shardlab.costs.models.model import Transformer
from shardlab.hybrid.groups import WORLD
from shardlab.hybrid.mesh_trainer import MeshTrainer, Step
from shardlab.hybrid.traffic import names, sent_by_axis
from shardlab.meter.alive import alive
from shardlab.meter.held import storage_bytes
from shardlab.meter.record import Bill, record
from shardlab.pipeline_parallel.execution import measured
from shardlab.pipeline_parallel.traces import to_trace
from shardlab.train.recipe import Recipe
from shardlab.train.traffic import predicted_by_axis

# ---- What the MFU (model FLOPs utilisation) is a share of: the products that this machine can do in a second ---------


def peak_flops(recipe: Recipe, ranks: int) -> tuple[float, str]:
    """FLOP/s of all ranks together, and where the number comes from; 0.0 and why not where nobody knows.

    Measured: the fastest square product in the recipe's dtype on one core, times the cores that the ranks share.
    """
    if recipe.log.peak_flops:
        return recipe.log.peak_flops * ranks, "stated in log.peak_flops"
    try:
        here = read_calibration(None)
    except ValueError:
        return 0.0, "unknown: run `shardlab calibrate`, or state log.peak_flops"
    rates = here.matmul.get(recipe.step.dtype)
    if not rates:
        return 0.0, f"unknown: `shardlab calibrate` has measured {', '.join(here.matmul)} here, not {recipe.step.dtype}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(rates.values()) * min(ranks, cores), "the fastest product that `shardlab calibrate` has measured here"


def mfu(model: Transformer, tokens: int, seconds: float, peak: float) -> float | None:
    """Share of the peak that the model's own FLOPs take; None without a peak."""
    return utilisation(model_flops_per_token(model), tokens, seconds, 1, peak) if peak else None


# A step looked at closely: which messages went over which axis, when every slot ran, and what was held at most


@dataclass(frozen=True)
class OfRank:
    """What one rank has measured: bytes by axis, the formula's, bytes of states, and the most that was alive."""

    sent: dict[str, float]
    predicted: dict[str, float]
    states: int
    peak: int


@dataclass
class Measurement:
    """Measures on one rank, and gathers on the first."""

    recipe: Recipe
    trainer: MeshTrainer
    trace: str = ""  # for https://ui.perfetto.dev, on the first rank
    by_rank: list[OfRank] = field(default_factory=list)
    _sent: dict[str, float] = field(default_factory=dict)

    def messages(self, step: Callable[[], Step]) -> Step:
        """Do a step and keep its messages and slots."""
        with record() as bill:
            told = step()
        self._sent = sent_by_axis(bill.events, self.trainer.groups)
        slots = self._gathered((self.trainer.times, _calls(bill)))
        self.trace = trace_of(self.trainer, slots)
        return told

    def memory(self, step: Callable[[], Step]) -> Step:
        """Do a step and keep what was alive; then every rank knows what all have measured."""
        states = self._states()
        with alive(states) as watched:
            told = step()
        mine = OfRank(self._sent, predicted_by_axis(self.recipe, self.trainer), storage_bytes(states), watched.peak)
        self.by_rank = self._gathered(mine)
        return told

    def table(self) -> list[str]:
        """Lines for people: of each axis the rank that sends most, beside the formula for that rank."""
        lines = ["sent in a step, by the rank that sends most     measured      formula"]
        for name in sorted({name for one in self.by_rank for name in (*one.sent, *one.predicted)}):
            most = max(self.by_rank, key=lambda one: one.sent.get(name, 0.0))
            if (sent := most.sent.get(name, 0.0)) or name in most.predicted:
                formula = f"{most.predicted[name]:13,.0f}" if name in most.predicted else "   small ones"
                lines.append(f"  {name:<40} {sent:13,.0f} {formula}")
        states, peak = (max(getattr(one, what) for one in self.by_rank) for what in ("states", "peak"))
        lines.append(f"weights, masters, moments {states:,} bytes, with activations and gradients {peak:,} at most")
        return lines

    def plain(self) -> dict[str, Any]:
        """The same as JSON can hold it; names: of each axis the name under which its bytes are counted."""
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
    """Each call: what, where, begin and end, in seconds of this machine's clock."""
    return [
        (event.kind, f"{event.where}, {event.payload_bytes:,} bytes", event.begin, event.end or event.begin)
        for event in bill.events
    ]


def trace_of(trainer: MeshTrainer, by_rank: list[Any]) -> str:
    """A trace of all ranks: a track for what each computes, and one below for its messages."""
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
