"""Measure a schedule on this machine with real ranks and messages, and stages that sleep instead of computing."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.mesh.emulated import EmulatedDevice
from shardlab.pipeline_parallel.check import check
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.execution import RankTimes, execute, measured
from shardlab.pipeline_parallel.schedule import Kind, Schedule, stages_of_rank
from shardlab.pipeline_parallel.simulation import Timeline, simulate
from shardlab.ranks.run import run


def run_emulated(schedule: Schedule, durations: Durations | None = None, *, seconds_per_unit: float = 0.03) -> Timeline:
    """The timeline that the ranks measured, in the units of `durations`. Compare it with `simulate`.

    seconds_per_unit: how long to sleep per unit. Messages and a busy machine cost about a millisecond per slot, which
    at 0.03 is a few percent. `durations.message` and `durations.overlapped` are ignored.
    Raises ValueError if the schedule cannot be run.
    """
    check(schedule)
    durations = durations or Durations()
    predicted = simulate(schedule, durations).makespan * seconds_per_unit
    in_seconds = _scaled(durations, seconds_per_unit)
    by_rank = run(_step, schedule, in_seconds, ranks=len(schedule), timeout=20 + 3 * predicted)
    timeline = measured(schedule, by_rank)
    begins, ends = (
        [[time / seconds_per_unit for time in times] for times in of_ranks]
        for of_ranks in (timeline.begins, timeline.ends)
    )
    return Timeline(schedule, begins, ends)


def _step(schedule: Schedule, durations: Durations) -> RankTimes:
    """Run a step without sleeping to open the connections, then the step that is measured."""
    for seconds in (_scaled(durations, 0.0), durations):
        stages = emulated_stages(schedule, dist.get_rank(), seconds)
        dist.barrier()
        times = execute(schedule, stages, group=dist.group.WORLD, agreed=True)
    return times


def _scaled(durations: Durations, factor: float) -> Durations:
    def scaled(duration):
        return [each * factor for each in duration] if isinstance(duration, list | tuple) else duration * factor

    return replace(
        durations,
        forward=scaled(durations.forward),
        input_gradient=scaled(durations.input_gradient),
        weight_gradient=scaled(durations.weight_gradient),
    )


def emulated_stages(schedule: Schedule, rank: int, durations: Durations) -> dict[int, EmulatedStage]:
    """The stages of one rank, sharing one emulated device."""
    device = EmulatedDevice()
    return {stage: EmulatedStage(stage, durations, device) for stage in stages_of_rank(schedule, rank)}


class EmulatedStage:
    """Sleeps as long as `durations` says and passes on a number, to show a schedule's bubble without real compute.

    Ranks and messages are real; only the math is missing. Two CPU cores can run sixteen such ranks.
    """

    def __init__(self, stage: int, durations: Durations, device: EmulatedDevice | None = None) -> None:
        self.seconds = {kind: durations.of_action(kind, stage) for kind in Kind}
        self.device = device or EmulatedDevice()

    def forward(self, microbatch: int, activation: Tensor | None) -> Tensor:
        return self._pass(Kind.F, microbatch)

    def backward(self, microbatch: int, gradient: Tensor | None) -> Tensor:
        return self._pass(Kind.B, microbatch)

    def input_gradient(self, microbatch: int, gradient: Tensor | None) -> Tensor:
        return self._pass(Kind.I, microbatch)

    def weight_gradient(self, microbatch: int) -> None:
        self._pass(Kind.W, microbatch)

    def empty_activation(self, microbatch: int) -> Tensor:
        return torch.zeros(1)

    def empty_gradient(self, microbatch: int) -> Tensor:
        return torch.zeros(1)

    def parameters(self) -> list[nn.Parameter]:
        return []

    def _pass(self, kind: Kind, microbatch: int) -> Tensor:
        self.device.work(self.seconds[kind])
        return torch.full((1,), float(microbatch))
