"""Run a schedule on real ranks. There is one loop for all schedules, as the order is data."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist

from shardlab.pipeline_parallel.agreement import NOTHING_KNOWN, Agreement, agree
from shardlab.pipeline_parallel.check import check
from shardlab.pipeline_parallel.check_messages import check_messages
from shardlab.pipeline_parallel.communication import MessageBatch, Program, communicate, receive_early
from shardlab.pipeline_parallel.connect import connect
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.mailbox import Mailbox
from shardlab.pipeline_parallel.overlap import PairTimes, Streams, gpu_of
from shardlab.pipeline_parallel.schedule import (
    Action,
    Kind,
    Overlap,
    Schedule,
    actions_of,
    input_from_neighbour,
    num_stages,
    result_of,
    user_of,
)
from shardlab.pipeline_parallel.shared_weights import add_twin_gradients, average_over_replicas
from shardlab.pipeline_parallel.simulation import Timeline
from shardlab.pipeline_parallel.stages import Stage, StageProblem

RECEIVE_AHEAD = 1  # slots; gloo tells the sender that a buffer is ready, which takes a while on a busy machine


Work = Callable[[], None]
Together = Callable[[Work, Work], None]


class RankTimes(NamedTuple):
    """Begin and end of each slot of one rank, in seconds of the machine's monotonic clock."""

    begins: list[float]
    ends: list[float]


def execute(
    schedule: Schedule,
    stages: Mapping[int, Stage],
    *,
    group: dist.ProcessGroup | None,
    durations: Durations | None = None,
    verify: bool = False,
    pair_times: list[PairTimes] | None = None,
    pair: Together | None = None,
    agreed: bool = False,
) -> RankTimes:
    """Run this rank's part: check, weave the messages in, compute, add up the gradients of weights that are held twice.

    schedule: the whole one, the same on every rank. stages: those of this rank, by number. durations: what passes
    take, the same on every rank; messages are listed in the order in which they then end. verify: name every message.
    An overlapped pair runs on two streams of a GPU, and its F before its B on a CPU. pair: does the two halves of a
    pair in another way, such as `expert_parallel.Turns().together`. pair_times: a list that gets the GPU's events of
    each pair. agreed: the stages are known to fit each other, and the ranks compare nothing (`agreement`).
    Raises ValueError, on every rank and before any message, when this group cannot run the schedule with these stages;
    later, for an output that is not what the next stage expects, and for a stage that gives no gradient though one
    before it trains.
    """
    if len(schedule) != (size := dist.get_world_size(group)):
        raise ValueError(f"the schedule is for {len(schedule)} ranks, the group has {size}: build it for {size}")
    device = gpu_of(stages.values())
    program = _checked(schedule, durations, 0 if device is not None else RECEIVE_AHEAD)
    agreement = NOTHING_KNOWN if agreed else agree(schedule, stages, group=group)

    in_all = num_stages(schedule)
    options = {"verify": verify, "pair_times": pair_times, "pair": pair}
    times = run_program(program, stages, in_all, group=group, agreement=agreement, **options)
    add_twin_gradients(schedule, stages, group=group)
    average_over_replicas(stages)
    return times


class _Checked(NamedTuple):
    """A schedule with its messages as they run, and what they were made of."""

    schedule: Schedule
    durations: Durations | None
    receive_ahead: int
    program: Program


_CHECKED: deque[_Checked] = deque(maxlen=8)  # of this process, the latest first


def _checked(schedule: Schedule, durations: Durations | None, receive_ahead: int) -> Program:
    """The program that runs, its messages checked. Training gives the same schedule each step: the first checks it.

    Two lists of the same slots compare in a thousandth of the time that a check takes.
    """
    for known in _CHECKED:
        if (known.schedule, known.durations, known.receive_ahead) == (schedule, durations, receive_ahead):
            return known.program
    check(schedule)
    woven = communicate(schedule, durations)
    program = [receive_early(steps, rank, num_slots=receive_ahead) for rank, steps in enumerate(woven)]
    check_messages(program, rendezvous=receive_ahead == 0)
    _CHECKED.appendleft(_Checked([list(slots) for slots in schedule], durations, receive_ahead, program))
    return program


def run_program(
    program: Program,
    stages: Mapping[int, Stage],
    stages_in_all: int,
    *,
    group: dist.ProcessGroup | None,
    verify: bool = False,
    pair_times: list[PairTimes] | None = None,
    pair: Together | None = None,
    agreement: Agreement = NOTHING_KNOWN,
) -> RankTimes:
    """Do the steps of this rank one after the other: post a batch, or wait for the inputs of a slot and compute.

    The program runs as it is given: `check_messages` says beforehand whether its messages can be right.
    """
    rank = dist.get_rank(group)
    device = gpu_of(stages.values())
    if device is not None:
        connect(program, device, group=group)
    mailbox = Mailbox(stages, program, group=group, verify=verify, agreement=agreement)
    slots = [step for step in program[rank] if not isinstance(step, MessageBatch)]
    paired = any(isinstance(slot, Overlap) for slot in slots)
    streams = Streams(slots, device, [] if pair_times is None else pair_times) if paired and device else None
    begins, ends = [], []
    for step in program[rank]:
        if isinstance(step, MessageBatch):
            mailbox.post(step)
            continue
        inputs = [_input(action, mailbox, stages_in_all) for action in actions_of(step)]
        begins.append(time.monotonic())
        with streams.slot(step) if streams else nullcontext():
            halves = [
                partial(_on_its_stream, action, tensor, stages[action.stage], mailbox, stages_in_all, streams)
                for action, tensor in zip(actions_of(step), inputs, strict=True)
            ]
            if pair is not None and len(halves) > 1:
                pair(*halves)
            else:
                for half in halves:
                    half()
        ends.append(time.monotonic())
    mailbox.finish()
    return RankTimes(begins, ends)


def _input(action: Action, mailbox: Mailbox, stages_in_all: int) -> torch.Tensor | None:
    """What the stage before or behind has computed for this action, waited for; None at an end and for W."""
    need = input_from_neighbour(action, stages_in_all)
    return None if need is None else mailbox.take(need)


def _on_its_stream(
    action: Action,
    tensor: torch.Tensor | None,
    stage: Stage,
    mailbox: Mailbox,
    stages_in_all: int,
    streams: Streams | None,
) -> None:
    """One pass, on its stream where there are some; what others need of it goes into the mailbox."""
    with streams.action(action, tensor) if streams else nullcontext():
        _compute(action, tensor, stage, mailbox, stages_in_all)


def _compute(action: Action, tensor: torch.Tensor | None, stage: Stage, mailbox: Mailbox, stages_in_all: int) -> None:
    result = result_of(action)
    if result is None:
        stage.weight_gradient(action.microbatch)
        return
    passes = {Kind.F: stage.forward, Kind.B: stage.backward, Kind.I: stage.input_gradient}
    try:
        computed = passes[action.kind](action.microbatch, tensor)
    except StageProblem as problem:
        raise ValueError(f"stage {action.stage}, microbatch {action.microbatch}: {problem}") from None
    if user_of(result, stages_in_all) is not None:
        if computed is None:
            computed = mailbox.no_gradient(action.stage, action.microbatch)
        mailbox.put(result, computed)


def measured(schedule: Schedule, times: Sequence[RankTimes]) -> Timeline:
    """The timeline that the ranks of one machine have measured, from the first begin on."""
    first = min(begins[0] for begins, _ in times if begins)
    return Timeline(
        schedule,
        [[begin - first for begin in begins] for begins, _ in times],
        [[end - first for end in ends] for _, ends in times],
    )
