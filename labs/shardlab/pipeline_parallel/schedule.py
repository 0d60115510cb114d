"""A pipeline schedule is a value: for each rank, the ordered list of its computations. No tensors, no messages.

It is built (`builders`), checked (`check`), simulated (`simulate`), drawn, exported (`traces`) and run on real ranks
(`execute`). The order is written only once, as data, and never as a loop.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The computation of one action. The letters are those of torch.distributed.pipelining."""

    F = "F"  # the forward pass
    I = "I"  # noqa: E741  the gradient of the input, which the previous stage waits for
    W = "W"  # the gradient of the weights; no stage waits for it, so it can fill a bubble
    B = "B"  # the full backward, I and W together


@dataclass(frozen=True, slots=True)
class Action:
    """One microbatch through one stage, in one direction. Action("F", 1, 3) is microbatch 3 forward in stage 1.

    Raises ValueError for another letter and for a stage or microbatch below 0.
    """

    kind: Kind
    stage: int
    microbatch: int

    def __post_init__(self) -> None:
        if type(self.kind) is not Kind:
            if self.kind not in ("F", "I", "W", "B"):
                raise ValueError(f"{self.kind!r} is not a pass: use F (forward), I (input), W (weights) or B (I and W)")
            object.__setattr__(self, "kind", Kind(self.kind))
        if not (self.stage >= 0 and self.microbatch >= 0):
            raise ValueError(f"stage {self.stage}, microbatch {self.microbatch}: count both from 0")

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.value}{self.microbatch}"


@dataclass(frozen=True, slots=True)
class Overlap:
    """A forward and a full backward of two different microbatches, run together to hide each other's communication."""

    forward: Action
    backward: Action

    def __post_init__(self) -> None:
        if (self.forward.kind, self.backward.kind) != (Kind.F, Kind.B):
            raise ValueError(f"{self.forward} and {self.backward} are not a pair: overlap an F with a B, in this order")

    def __str__(self) -> str:
        return f"({self.forward};{self.backward})OVERLAP_F_B"


Slot = Action | Overlap
Schedule = list[list[Slot]]  # schedule[rank] = that rank's slots, in order


def actions_of(slot: Slot) -> tuple[Action, ...]:
    """The one action of a slot, or the two of an overlapped pair."""
    return (slot.forward, slot.backward) if isinstance(slot, Overlap) else (slot,)


def all_actions(schedule: Schedule) -> Iterator[Action]:
    """Every action of every rank."""
    for slots in schedule:
        for slot in slots:
            if isinstance(slot, Action):
                yield slot
            else:
                yield from actions_of(slot)


def passes(kind: Kind, stage: int, microbatches: Iterable[int]) -> list[Slot]:
    """The same pass for consecutive microbatches: passes(F, 2, range(3)) is 2F0 2F1 2F2."""
    return [Action(kind, stage, microbatch) for microbatch in microbatches]


def num_stages(schedule: Schedule) -> int:
    """One more than the largest stage in the schedule."""
    return 1 + max((action.stage for action in all_actions(schedule)), default=-1)


def num_microbatches(schedule: Schedule) -> int:
    """One more than the largest microbatch in the schedule."""
    return 1 + max((action.microbatch for action in all_actions(schedule)), default=-1)


def stages_of_rank(schedule: Schedule, rank: int) -> list[int]:
    """The stages whose weights this rank must hold, in increasing order."""
    return sorted({action.stage for slot in schedule[rank] for action in actions_of(slot)})


def inputs_of(action: Action, stages: int) -> list[Action]:
    """The actions that must finish before this one can start. I means "I or B".

    A forward needs the forward of the previous stage. A backward needs its own forward and the input gradient of the
    next stage. A weight gradient needs its own input gradient. stages: the number of stages in the pipeline.
    """
    kind, stage, microbatch = action.kind, action.stage, action.microbatch
    if kind is Kind.F:
        return [Action(Kind.F, stage - 1, microbatch)] if stage > 0 else []
    if kind is Kind.W:
        return [Action(Kind.I, stage, microbatch)]
    behind = [Action(Kind.I, stage + 1, microbatch)] if stage + 1 < stages else []
    return [Action(Kind.F, stage, microbatch), *behind]


def input_from_neighbour(action: Action, stages: int) -> Action | None:
    """The input that comes from another stage and may have to be sent; None at either end and for W."""
    return next((need for need in inputs_of(action, stages) if need.stage != action.stage), None)


def result_of(action: Action) -> Action | None:
    """The result that other stages can use: an activation (F) or input gradient (I, also of a B). None for W."""
    if action.kind is Kind.W:
        return None
    return action if action.kind is Kind.F else Action(Kind.I, action.stage, action.microbatch)


def user_of(result: Action, stages: int) -> Action | None:
    """The neighboring stage's pass that waits for a result (the inverse of `input_from_neighbour`); None at an end."""
    stage = result.stage + (1 if result.kind is Kind.F else -1)
    return Action(result.kind, stage, result.microbatch) if 0 <= stage < stages else None


_ACTION = re.compile(r"(\d+)([FIWB])(\d+)")
_OVERLAP = re.compile(r"\((\d+F\d+);(\d+B\d+)\)OVERLAP_F_B")


def parse_slot(text: str) -> Slot:
    """Read one slot in torch's grammar: "1F3", or "(1F3;0B0)OVERLAP_F_B" for a pair.

    Raises ValueError for anything else.
    """
    if pair := _OVERLAP.fullmatch(text.strip()):
        forward, backward = (_parse_action(part) for part in pair.groups())
        return Overlap(forward, backward)
    return _parse_action(text.strip())


def parse_schedule(texts: Sequence[Sequence[str]]) -> Schedule:
    """Read a schedule from each rank's list of texts, such as [["0F0", "0B0"], ["1F0", "1B0"]].

    Raises ValueError naming rank and slot.
    """
    schedule: Schedule = []
    for rank, slots in enumerate(texts):
        schedule.append([])
        for place, text in enumerate(slots):
            try:
                schedule[rank].append(parse_slot(text))
            except ValueError as error:
                raise ValueError(f"rank {rank}, slot {place}: {error}") from None
    return schedule


def _parse_action(text: str) -> Action:
    found = _ACTION.fullmatch(text)
    if not found:
        pair = ", or (1F3;0B0)OVERLAP_F_B for a pair" if set("(;)&") & set(text) else ""
        raise ValueError(f"{text!r} is not a slot: write stage, letter and microbatch, such as 1F3 or 1B3{pair}")
    stage, letter, microbatch = found.groups()
    return Action(Kind(letter), int(stage), int(microbatch))
