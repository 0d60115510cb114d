"""Overlapped pairs on a GPU: the forward and the backward of a pair run concurrently on two CUDA streams.

Autograd runs a backward on the stream of its forward, so the stream is chosen at the forward: the F of a pair takes the
stream that the pair's B does not use. A CPU has no streams, so the F runs first, then the B.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from shardlab.pipeline_parallel.schedule import Action, Overlap, Slot, actions_of
from shardlab.pipeline_parallel.stages import ModuleStage, Stage

MAIN, SIDE = 0, 1  # the current stream, on which messages are also posted, and a second one


def streams_of(slots: Sequence[Slot]) -> dict[Action, int]:
    """MAIN or SIDE for each action of one rank. All passes of a microbatch through a stage use the same stream."""
    chosen: dict[tuple[int, int], int] = {}  # by stage and microbatch
    for slot in slots:
        if isinstance(slot, Overlap):
            backward = chosen.setdefault((slot.backward.stage, slot.backward.microbatch), MAIN)
            chosen.setdefault((slot.forward.stage, slot.forward.microbatch), SIDE - backward)
        else:
            chosen.setdefault((slot.stage, slot.microbatch), MAIN)
    return {action: chosen[action.stage, action.microbatch] for slot in slots for action in actions_of(slot)}


class PairTimes(NamedTuple):
    """CUDA events of one pair: begin and end of its forward, begin and end of its backward."""

    forward: tuple[torch.cuda.Event, torch.cuda.Event]
    backward: tuple[torch.cuda.Event, torch.cuda.Event]

    @property
    def overlapped(self) -> bool:
        """Whether each half began before the other had ended. Waits for the GPU."""
        torch.cuda.synchronize()
        (begin, end), (other_begin, other_end) = self.forward, self.backward
        return begin.elapsed_time(other_end) > 0 and other_begin.elapsed_time(end) > 0


class Streams:
    """The two streams of a rank on a GPU.

    They wait for each other before and after each slot, so only the two halves of a pair run unordered: the forward
    reads weights, and the backward reads weights and writes gradients. It also means that memory freed by one stream is
    reused by the other only in a later slot, when the first has finished with it.
    """

    def __init__(self, slots: Sequence[Slot], device: torch.device, pair_times: list[PairTimes]) -> None:
        self._number = streams_of(slots)
        self._main, self._side = torch.cuda.current_stream(device), torch.cuda.Stream(device)
        self._pair_times = pair_times
        self._ran: dict[Action, tuple[torch.cuda.Event, torch.cuda.Event]] = {}

    @contextmanager
    def slot(self, slot: Slot) -> Iterator[None]:
        """Start this slot when both streams have finished earlier work, and later work when the slot has ended."""
        self._side.wait_stream(self._main)
        yield
        self._main.wait_stream(self._side)
        if isinstance(slot, Overlap):
            self._pair_times.append(PairTimes(self._ran[slot.forward], self._ran[slot.backward]))
        self._ran.clear()

    @contextmanager
    def action(self, action: Action, received: Tensor | None) -> Iterator[None]:
        """Compute the action inside on its stream. received: its input, which may come from the other stream."""
        stream = (self._main, self._side)[self._number[action]]
        if received is not None:
            received.record_stream(stream)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(stream):
            begin.record(stream)
            yield
            end.record(stream)
        self._ran[action] = begin, end


def gpu_of(stages: Collection[Stage]) -> torch.device | None:
    """The GPU on which these stages compute, or None. A `ModuleStage` may have no (trainable) weights."""
    weights = (weight.device for stage in stages for weight in stage.parameters())
    devices = chain(weights, (stage.device for stage in stages if isinstance(stage, ModuleStage)))
    return next((device for device in devices if device is not None and device.type == "cuda"), None)
