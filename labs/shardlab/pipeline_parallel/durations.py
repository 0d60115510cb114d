"""How many seconds an action and a message take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shardlab.pipeline_parallel.schedule import Action, Kind, Slot


@dataclass(frozen=True)
class Durations:
    """Seconds per action. A number applies to every stage; a list has one number per stage.

    forward, input_gradient, weight_gradient: F, I and W. A full backward B takes I + W.
    overlapped: an overlapped pair. None means F + B, with no time saved, as on one CPU core.
    message: from the end of an action until another rank can use its result (latency + bytes / bandwidth).
    Raises ValueError for a duration that is negative, infinite or not a number, and for lists of different lengths.
    """

    forward: float | Sequence[float] = 1.0
    input_gradient: float | Sequence[float] = 1.0
    weight_gradient: float | Sequence[float] = 1.0
    overlapped: float | None = None
    message: float = 0.0

    def __post_init__(self) -> None:
        lengths = set()
        for name in ("forward", "input_gradient", "weight_gradient", "overlapped", "message"):
            given = getattr(self, name)
            values = given if isinstance(given, Sequence) else [given]
            if isinstance(given, Sequence):
                lengths.add(len(given))
            for value in values:
                if value is not None and not (math.isfinite(value) and value >= 0):
                    raise ValueError(f"{name} = {value} is not a duration: give finite seconds, 0 or more")
        if len(lengths) > 1:
            raise ValueError(f"lists for {sorted(lengths)} stages do not fit together: give all lists the same length")

    def of_action(self, kind: Kind, stage: int) -> float:
        """Seconds of one action."""
        if kind is Kind.F:
            return _at(self.forward, stage)
        if kind is Kind.I:
            return _at(self.input_gradient, stage)
        if kind is Kind.W:
            return _at(self.weight_gradient, stage)
        return _at(self.input_gradient, stage) + _at(self.weight_gradient, stage)

    def of_slot(self, slot: Slot) -> float:
        """Seconds of an action, or of an overlapped pair."""
        if isinstance(slot, Action):
            return self.of_action(slot.kind, slot.stage)
        if self.overlapped is not None:
            return self.overlapped
        return self.of_action(Kind.F, slot.forward.stage) + self.of_action(Kind.B, slot.backward.stage)

    def table(self, stages: int) -> dict[Kind, list[float]]:
        """Seconds by kind and stage, computed once, since the clock reads them a hundred thousand times."""
        return {kind: [self.of_action(kind, stage) for stage in range(stages)] for kind in Kind}


def _at(duration: float | Sequence[float], stage: int) -> float:
    if not isinstance(duration, Sequence):
        return duration
    if stage >= len(duration):
        raise ValueError(
            f"no duration for stage {stage}: the list has {len(duration)} numbers; give {stage + 1} or more"
        )
    return duration[stage]
