"""Overlapped pairs on a GPU: the forward and the backward of a pair run on two CUDA streams, side by side.

Autograd runs a backward on the stream of its forward. So the stream is chosen at the forward: the F of a pair takes the
one that the pair's B has not. On a CPU there are no streams; the F runs, then the B.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from shardlab.pipeline_parallel.schedule import Action, Overlap, Slot, actions_of
from shardlab.pipeline_parallel.stages import ModuleStage, Stage

MAIN, SIDE = 0, 1  # the current stream, on which messages are posted too, and one beside it


def streams_of(slots: Sequence[Slot]) -> dict[Action, int]:
    """MAIN or SIDE for each action of one rank; all passes of a microbatch through a stage have one stream."""
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

    Around each slot they wait for each other. So the only work without an order is that of a pair's two halves: the
    forward reads weights, the backward reads them and writes gradients. It also means that memory which one stream has
    freed is used by the other only in a later slot, when it is free indeed.
    """

    def __init__(self, slots: Sequence[Slot], device: torch.device, pair_times: list[PairTimes]) -> None:
        self._number = streams_of(slots)
        self._main, self._side = torch.cuda.current_stream(device), torch.cuda.Stream(device)
        self._pair_times = pair_times
        self._ran: dict[Action, tuple[torch.cuda.Event, torch.cuda.Event]] = {}

    @contextmanager
    def slot(self, slot: Slot) -> Iterator[None]:
        """What came before this slot is done at its begin, and the slot at its end, on both streams."""
        self._side.wait_stream(self._main)
        yield
        self._main.wait_stream(self._side)
        if isinstance(slot, Overlap):
            self._pair_times.append(PairTimes(self._ran[slot.forward], self._ran[slot.backward]))
        self._ran.clear()

    @contextmanager
    def action(self, action: Action, received: Tensor | None) -> Iterator[None]:
        """Compute the action inside, on its stream. received: its input, which was made on the other one, maybe."""
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
    """Where these stages compute, if that is a GPU; a `ModuleStage` may have no weights, or none to train."""
    weights = (weight.device for stage in stages for weight in stage.parameters())
    devices = chain(weights, (stage.device for stage in stages if isinstance(stage, ModuleStage)))
    return next((device for device in devices if device is not None and device.type == "cuda"), None)
