"""Measure a schedule on this machine: real ranks and messages, stages that sleep instead of computing."""

from dataclasses import replace

import torch.distributed as dist

from shardlab.pipeline_parallel.check import check
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.execution import RankTimes, execute, measured
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.simulation import Timeline, simulate
from shardlab.pipeline_parallel.stages import sleeping_stages
from shardlab.ranks.run import run


def run_asleep(schedule: Schedule, durations: Durations | None = None, *, seconds_per_unit: float = 0.03) -> Timeline:
    """What the ranks measured, in the units of `durations`: lay it beside `simulate(schedule, durations)`.

    seconds_per_unit: how long one unit sleeps. Messages and a busy machine cost about a millisecond per slot: at 0.03
    that is a few per cent. `durations.message` and `durations.overlapped` are not slept.
    Raises ValueError when the schedule cannot be run.
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
    """A step without sleep to make the connections, and one that counts."""
    for seconds in (_scaled(durations, 0.0), durations):
        stages = sleeping_stages(schedule, dist.get_rank(), seconds)
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
