"""Assign layers of different cost to stages so that the slowest stage is as fast as possible (dynamic programming).

Alpa (arXiv 2201.12023), section 5: a step of m microbatches takes the sum over stages plus (m - 1) times the slowest
stage (equation 2). With the devices of a stage given, the sum is the same for every cut, so the slowest stage decides.
Each stage must fit in memory with the microbatches it has in flight, min(p - i, m) in 1F1B (equation 5).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from shardlab.costs.hardware import GIB


@dataclass(frozen=True)
class Piece:
    """A layer, or everything else on a stage.

    seconds: forward and backward of one microbatch. state_bytes: held permanently. kept_bytes: held from the forward to
    the backward of each microbatch.
    """

    seconds: float = 0.0
    state_bytes: float = 0.0
    kept_bytes: float = 0.0


NOTHING = Piece()


@dataclass(frozen=True)
class Partition:
    """The number of layers of each stage in order, with each stage's seconds per microbatch and peak bytes."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    bytes: tuple[float, ...]

    @property
    def slowest(self) -> float:
        return max(self.seconds)

    def step_seconds(self, num_microbatches: int) -> float:
        """Seconds of all microbatches through all stages: Alpa's equation 2."""
        return sum(self.seconds) + (num_microbatches - 1) * self.slowest


def partition(
    layers: Sequence[Piece],
    num_stages: int,
    *,
    extras: Sequence[Piece] = (),
    num_microbatches: int = 1,
    limit_bytes: float = math.inf,
) -> Partition:
    """Cut the layers into nonempty stages so that the slowest stage is fastest, within each stage's memory.

    extras: one per stage, for everything that is not a layer: the embedding on the first, the output layer on the last.
    Raises ValueError for more stages than layers, for invalid numbers, and if no cut fits, with the least memory
    needed.
    """
    extras = extras or [NOTHING] * num_stages
    _check(layers, num_stages, extras, num_microbatches)
    sums = {name: [0.0, *accumulate(getattr(layer, name) for layer in layers)] for name in vars(NOTHING)}

    def seconds(stage: int, begin: int, end: int) -> float:
        return extras[stage].seconds + sums["seconds"][end] - sums["seconds"][begin]

    def held(stage: int, begin: int, end: int) -> float:
        in_flight = min(num_stages - stage, num_microbatches)
        kept = extras[stage].kept_bytes + sums["kept_bytes"][end] - sums["kept_bytes"][begin]
        states = extras[stage].state_bytes + sums["state_bytes"][end] - sums["state_bytes"][begin]
        return states + in_flight * kept

    def capped(stage: int, begin: int, end: int) -> float:
        return seconds(stage, begin, end) if held(stage, begin, end) <= limit_bytes else math.inf

    cuts = _least_largest(len(layers), num_stages, capped)
    if cuts is None:
        smallest = _least_largest(len(layers), num_stages, held)
        assert smallest
        least = max(held(stage, begin, end) for stage, (begin, end) in enumerate(smallest))
        raise ValueError(
            f"no cut of {len(layers)} layers into {num_stages} stages fits in {limit_bytes / GIB:.3g} GiB: the "
            f"smallest needs {least / GIB:.3g} GiB on its fullest stage, use more stages or recomputation"
        )
    stages = list(enumerate(cuts))
    return Partition(
        sizes=tuple(end - begin for begin, end in cuts),
        seconds=tuple(seconds(stage, *cut) for stage, cut in stages),
        bytes=tuple(held(stage, *cut) for stage, cut in stages),
    )


def _least_largest(
    num_layers: int, num_stages: int, cost: Callable[[int, int, int], float]
) -> list[tuple[int, int]] | None:
    """(begin, end) of each stage that minimize the largest cost(stage, begin, end); None if all are infinite.

    best[end] of s stages is the minimum over begin of max(best[begin] of s - 1 stages, cost of the last stage). A cost
    grows with the layers of a stage, so once a stage is too expensive no longer one is tried.
    """
    best = [0.0, *[math.inf] * num_layers]
    chosen: list[list[int]] = []
    for stage in range(num_stages):
        now, begins = [math.inf] * (num_layers + 1), [0] * (num_layers + 1)
        for end in range(stage + 1, num_layers - (num_stages - stage - 1) + 1):
            for begin in range(end - 1, stage - 1, -1):
                last = cost(stage, begin, end)
                if last >= now[end]:
                    break
                if (largest := max(best[begin], last)) < now[end]:
                    now[end], begins[end] = largest, begin
        best = now
        chosen.append(begins)
    if math.isinf(best[num_layers]):
        return None
    cuts, end = [], num_layers
    for begins in reversed(chosen):
        cuts.append((begins[end], end))
        end = begins[end]
    return cuts[::-1]


def _check(layers: Sequence[Piece], num_stages: int, extras: Sequence[Piece], num_microbatches: int) -> None:
    if not 1 <= num_stages <= len(layers):
        raise ValueError(f"{len(layers)} layers cannot fill {num_stages} stages: use 1 to {len(layers)}")
    if len(extras) != num_stages:
        raise ValueError(f"{len(extras)} extras for {num_stages} stages: give one per stage, or none")
    if num_microbatches < 1:
        raise ValueError(f"{num_microbatches} microbatches: use 1 or more")
    numbers = [number for piece in (*layers, *extras) for number in vars(piece).values()]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError("seconds and bytes of a piece must be finite and 0 or more")
