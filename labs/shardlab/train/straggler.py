"""Detect a straggler (慢节点): a slow rank that all others wait for in every step.

All ranks' steps take equally long, but the meter distinguishes them: the time that a rank does not spend waiting for
messages is its working time, and the straggler works longest.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

import torch.distributed as dist

from shardlab.hybrid.groups import WORLD
from shardlab.meter.record import Bill, record
from shardlab.train.heartbeat import place_of
from shardlab.train.hook import Hook

if TYPE_CHECKING:
    from shardlab.train.logs import LoggedStep
    from shardlab.train.loop import Training
    from shardlab.train.recipe import Recipe

FACTOR, LEAST = 1.5, 0.1  # a straggler works this many times as long as its peers, and this many seconds longer
LOOKS = 3  # in a row: a machine may be busy once


def slowest(working: Sequence[float], stages: Sequence[int]) -> tuple[int, float] | None:
    """The rank with the largest ratio of its working time to its peers' median, and that ratio; None for one rank.

    working: seconds of each rank in a step without waiting. stages: of each rank; only ranks of one stage have the same
    work. The only rank of a stage is compared with all others.
    """
    times = []
    for rank, seconds in enumerate(working):
        others = [other for other in range(len(working)) if other != rank]
        alike = [other for other in others if stages[other] == stages[rank]] or others
        if alike:
            times.append((seconds / median(working[other] for other in alike), rank))
    if not times:
        return None
    longest, rank = max(times)
    return rank, longest


class Lookout(Hook):
    """Compares ranks every `every` steps; reports a rank that is too slow several times in a row, and may end it.

    ends: the straggler kills itself with SIGKILL, and the run continues as after any lost rank.
    """

    def __init__(self, every: int, *, ends: bool) -> None:
        self._every, self._ends = every, ends
        self._open = ExitStack()
        self._looked: tuple[float, Bill] | None = None  # when the step began, and its bill
        self._suspects: list[int] = []

    def on_step(self, training: Training, step: int) -> None:
        self._open.close()  # still open after a skipped step
        self._looked = None
        measured = training.recipe.log.measure
        if step % self._every == 0 and step not in (measured, measured + 1):
            self._looked = time.perf_counter(), self._open.enter_context(record())

    def on_end(self, training: Training, row: LoggedStep) -> None:
        if self._looked is not None:
            began, bill = self._looked
            working = time.perf_counter() - began - bill.exposed_seconds
            self._open.close()
            self._looked = None
            self._compare(training, working)

    def _compare(self, training: Training, working: float) -> None:
        """Exchange working times between all ranks; every rank reaches the same result."""
        group, mesh = training.trainer.groups.of(*WORLD), training.trainer.mesh
        by_rank: list[float] = [0.0] * dist.get_world_size(group)
        dist.all_gather_object(by_rank, working, group=group)
        stages = [mesh.coordinates(rank)["pp"] for rank in range(len(by_rank))]
        found = slowest(by_rank, stages)
        if found is None or found[1] < FACTOR or by_rank[found[0]] * (1 - 1 / found[1]) < LEAST:
            self._suspects = []
            return
        rank, times = found
        self._suspects = [*(self._suspects if self._suspects[-1:] == [rank] else []), rank]
        if len(self._suspects) < LOOKS:
            return
        self._suspects = []
        training.logs.say(
            f"rank {rank} ({place_of(mesh, rank)}) is a straggler: it worked {by_rank[rank]:.2f} s in step "
            f"{training.done}, {times:.1f} times as long as ranks with the same work, {LOOKS} times in a row"
        )
        if self._ends and training.rank == rank:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)


def lookouts(recipe: Recipe) -> list[Hook]:
    """The hooks of a recipe: a straggler lookout if the recipe asks for one."""
    given = recipe.survival
    return [Lookout(given.look_for_slow, ends=given.on_slow_rank == "end")] if given.look_for_slow else []
