"""Run a schedule on real ranks. One loop serves all schedules, because the order is data."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist

from shardlab.pipeline_parallel.agreement import NOTHING_KNOWN, Agreement, agree
from shardlab.pipeline_parallel.check import check_whole
from shardlab.pipeline_parallel.check_messages import check_messages
from shardlab.pipeline_parallel.communication import MessageBatch, Program, communicate, receive_early
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.mailbox import Mailbox, connect
from shardlab.pipeline_parallel.overlap import PairTimes, Streams, gpu_of
from shardlab.pipeline_parallel.schedule import (
    Action,
    Kind,
    Overlap,
    Schedule,
    Slot,
    actions_of,
    input_from_neighbour,
    num_stages,
    result_of,
    user_of,
)
from shardlab.pipeline_parallel.shared_weights import add_twin_gradients, average_over_replicas
from shardlab.pipeline_parallel.simulation import Timeline
from shardlab.pipeline_parallel.stages import Stage, StageProblem

RECEIVE_AHEAD = 1  # slots; gloo notifies the sender that a buffer is ready, which takes a while on a busy machine


Work = Callable[[], None]
Together = Callable[[Work, Work], None]


class RankTimes(NamedTuple):
    """Begin and end of each slot of one rank, in seconds of the machine's monotonic clock."""

    begins: list[float]
    ends: list[float]


class _Passes(NamedTuple):
    """Runs the slots of one rank: gets their inputs, computes, and delivers the results."""

    stages: Mapping[int, Stage]
    stages_in_all: int
    mailbox: Mailbox
    streams: Streams | None
    pair: Together | None

    def input_of(self, action: Action) -> torch.Tensor | None:
        """Wait for the tensor that a neighboring stage sends for this action; None at either end and for W."""
        need = input_from_neighbour(action, self.stages_in_all)
        return None if need is None else self.mailbox.take(need)

    def do(self, slot: Slot, inputs: Sequence[torch.Tensor | None]) -> None:
        """Run one action, or both halves of a pair, each on its stream if there are streams."""
        with self.streams.slot(slot) if self.streams else nullcontext():
            halves = [partial(self._on_its_stream, *both) for both in zip(actions_of(slot), inputs, strict=True)]
            if self.pair is not None and len(halves) > 1:
                self.pair(*halves)
            else:
                for half in halves:
                    half()

    def _on_its_stream(self, action: Action, tensor: torch.Tensor | None) -> None:
        with self.streams.action(action, tensor) if self.streams else nullcontext():
            self._compute(action, tensor)

    def _compute(self, action: Action, tensor: torch.Tensor | None) -> None:
        """Compute one pass, and put its result into the mailbox if another stage needs it."""
        stage, result = self.stages[action.stage], result_of(action)
        if result is None:
            stage.weight_gradient(action.microbatch)
            return
        passes = {Kind.F: stage.forward, Kind.B: stage.backward, Kind.I: stage.input_gradient}
        try:
            computed = passes[action.kind](action.microbatch, tensor)
        except StageProblem as problem:
            raise ValueError(f"stage {action.stage}, microbatch {action.microbatch}: {problem}") from None
        if user_of(result, self.stages_in_all) is not None:
            if computed is None:
                computed = self.mailbox.no_gradient(action.stage, action.microbatch)
            self.mailbox.put(result, computed)


@dataclass(frozen=True)
class Executor:
    """Runs the steps of a rank in order: post a batch, or wait for the inputs of a slot and compute.

    verify: send a name before each message and compare it on arrival. pair: how to run the two halves of an overlapped
    pair, such as `expert_parallel.Turns().together`. By default they run on two streams of a GPU, or on a CPU one after
    the other, F first. pair_times: a list to which the GPU events of each pair are appended.
    """

    verify: bool = False
    pair: Together | None = None
    pair_times: list[PairTimes] | None = None

    def run(
        self,
        program: Program,
        stages: Mapping[int, Stage],
        stages_in_all: int,
        *,
        group: dist.ProcessGroup | None,
        agreement: Agreement = NOTHING_KNOWN,
    ) -> RankTimes:
        """Run this rank's part of a program without checking it: call `check_messages` first.

        agreement: the shapes and dtypes of all stages, which the ranks have compared.
        """
        rank, device = dist.get_rank(group), gpu_of(stages.values())
        if device is not None:
            connect(program, device, group=group)
        mailbox = Mailbox(stages, program, group=group, verify=self.verify, agreement=agreement)
        slots = [step for step in program[rank] if not isinstance(step, MessageBatch)]
        passes = _Passes(stages, stages_in_all, mailbox, self._streams(slots, device), self.pair)
        times = RankTimes([], [])
        for step in program[rank]:
            if isinstance(step, MessageBatch):
                mailbox.post(step)
                continue
            inputs = [passes.input_of(action) for action in actions_of(step)]
            times.begins.append(time.monotonic())
            passes.do(step, inputs)
            times.ends.append(time.monotonic())
        mailbox.finish()
        return times

    def _streams(self, slots: Sequence[Slot], device: torch.device | None) -> Streams | None:
        if device is None or not any(isinstance(slot, Overlap) for slot in slots):
            return None
        return Streams(slots, device, [] if self.pair_times is None else self.pair_times)


PLAIN = Executor()


def execute(
    schedule: Schedule,
    stages: Mapping[int, Stage],
    *,
    group: dist.ProcessGroup | None,
    durations: Durations | None = None,
    executor: Executor = PLAIN,
    agreed: bool = False,
) -> RankTimes:
    """Run this rank's part: check, insert messages, compute, and sum the gradients of weights that two ranks hold.

    schedule: the whole schedule, the same on every rank. stages: this rank's stages, by number. durations: of the
    passes, the same on every rank; messages are ordered by simulated completion time. agreed: the stages are known to
    fit together, so skip the comparison (`agreement`).
    Raises ValueError on every rank, before any message, if this group cannot run the schedule with these stages. Later
    it raises if an output is not what the next stage expects, or if a stage returns no gradient although an earlier
    stage trains.
    """
    if len(schedule) != (size := dist.get_world_size(group)):
        raise ValueError(f"the schedule is for {len(schedule)} ranks, but the group has {size}: build it for {size}")
    program = _checked(schedule, durations, 0 if gpu_of(stages.values()) is not None else RECEIVE_AHEAD)
    agreement = NOTHING_KNOWN if agreed else agree(schedule, stages, group=group)
    times = executor.run(program, stages, num_stages(schedule), group=group, agreement=agreement)
    add_twin_gradients(schedule, stages, group=group)
    average_over_replicas(stages)
    return times


class _Checked(NamedTuple):
    """A program that was checked, and the arguments it was built from."""

    schedule: Schedule
    durations: Durations | None
    receive_ahead: int
    program: Program


_CHECKED: deque[_Checked] = deque(maxlen=8)  # per process, latest first


def _checked(schedule: Schedule, durations: Durations | None, receive_ahead: int) -> Program:
    """The checked program. Training reuses one schedule, so only the first step checks and simulates it.

    Comparing two equal schedules takes a thousandth of the time of a check.
    """
    for known in _CHECKED:
        if (known.schedule, known.durations, known.receive_ahead) == (schedule, durations, receive_ahead):
            return known.program
    check_whole(schedule)
    woven = communicate(schedule, durations)  # simulates, and raises if a rank would wait forever
    program = [receive_early(steps, rank, num_slots=receive_ahead) for rank, steps in enumerate(woven)]
    check_messages(program, rendezvous=receive_ahead == 0)
    _CHECKED.appendleft(_Checked([list(slots) for slots in schedule], durations, receive_ahead, program))
    return program


def measured(schedule: Schedule, times: Sequence[RankTimes]) -> Timeline:
    """The timeline measured by the ranks of one machine, starting at the first begin."""
    first = min(begins[0] for begins, _ in times if begins)
    return Timeline(
        schedule,
        [[begin - first for begin in begins] for begins, _ in times],
        [[end - first for end in ends] for _, ends in times],
    )
