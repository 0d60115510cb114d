"""Build one rank's list of slots with the terms of the papers: F, then F & B, then W."""

from collections import deque
from collections.abc import Mapping

from shardlab.pipeline_parallel.schedule import Action, Kind, Overlap, Slot


class Lane:
    """Each call appends a pass of the stage's next microbatch, or does nothing if the stage has none left.

    microbatches: for each stage of this rank, the microbatches that pass through it, in order.
    """

    def __init__(self, microbatches: Mapping[int, range]) -> None:
        self.slots: list[Slot] = []
        self._forwards = {stage: deque(numbers) for stage, numbers in microbatches.items()}
        self._backwards = {stage: deque(numbers) for stage, numbers in microbatches.items()}
        self._weights: deque[tuple[int, int]] = deque()  # (stage, microbatch) of each I without its W

    def forward(self, stage: int) -> None:
        """F of the stage's next microbatch."""
        if self._forwards[stage]:
            self.slots.append(Action(Kind.F, stage, self._forwards[stage].popleft()))

    def backward(self, stage: int) -> None:
        """B: input and weight gradient together."""
        if self._backwards[stage]:
            self.slots.append(Action(Kind.B, stage, self._backwards[stage].popleft()))

    def input_gradient(self, stage: int) -> None:
        """I. Its W is queued."""
        if self._backwards[stage]:
            microbatch = self._backwards[stage].popleft()
            self.slots.append(Action(Kind.I, stage, microbatch))
            self._weights.append((stage, microbatch))

    def weight_gradient(self) -> None:
        """W of the oldest I without one."""
        if self._weights:
            self.slots.append(Action(Kind.W, *self._weights.popleft()))

    def overlap(self, forward: int, backward: int) -> None:
        """F of one stage and B of another as a pair. If one of them has none left, the other runs alone."""
        if not (self._forwards[forward] and self._backwards[backward]):
            self.forward(forward)
            self.backward(backward)
            return
        front = Action(Kind.F, forward, self._forwards[forward].popleft())
        self.slots.append(Overlap(front, Action(Kind.B, backward, self._backwards[backward].popleft())))

    def forwards_left(self, stage: int) -> int:
        """How many F of this stage remain."""
        return len(self._forwards[stage])

    def weights_left(self) -> int:
        """How many W are queued."""
        return len(self._weights)


def need_sizes(num_ranks: int, num_microbatches: int, *, least_ranks: int = 1) -> None:
    """Raise ValueError unless both numbers are integers and large enough."""
    for name, number, least in (
        ("ranks", num_ranks, least_ranks),
        ("microbatches", num_microbatches, 1),
    ):
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"{name} = {number!r} is not a number of {name}: use a whole number, {least} or more")
        if number < least:
            raise ValueError(f"{name} = {number} is too few for this schedule: use {least} or more")
