"""Check that a schedule is legal. Every failure is a sentence that names the rank, the slot, and what to do."""

from collections.abc import Sequence

from shardlab.pipeline_parallel.schedule import (
    Action,
    Kind,
    Overlap,
    Schedule,
    actions_of,
    num_microbatches,
    num_stages,
)
from shardlab.pipeline_parallel.simulation import simulate

SHOWN = 5  # maximum sentences of one kind; more of the same would not help

Place = tuple[int, int]  # rank, slot


def check(schedule: Schedule, *, microbatches: int | None = None, max_activations: int | Sequence[int] | None = None):
    """Raise ValueError listing everything that is wrong, or return None.

    microbatches: the required number; None takes it from the largest microbatch in the schedule.
    max_activations: the most that a rank (or each rank, in a list) may hold until the input gradient.
    """
    if wrong := problems(schedule, microbatches=microbatches, max_activations=max_activations):
        raise ValueError("\n".join(wrong))


def problems(
    schedule: Schedule, *, microbatches: int | None = None, max_activations: int | Sequence[int] | None = None
) -> list[str]:
    """Everything that is wrong with a schedule, one sentence each. Empty if it can be run.

    Checks, in this order: every pass occurs once; each backward is on the rank of its forward; no rank waits forever;
    no rank holds too many activations.
    """
    wrong, has_slots = _not_whole(schedule, microbatches)
    if not wrong:
        try:
            simulate(schedule)
        except ValueError as stuck:
            wrong.append(str(stuck))
    return wrong + (_too_much_held(schedule, max_activations) if has_slots else [])


def check_whole(schedule: Schedule) -> None:
    """Like `check`, but without the search for ranks that wait forever, which takes a simulation."""
    if wrong := _not_whole(schedule)[0]:
        raise ValueError("\n".join(wrong))


def _not_whole(schedule: Schedule, microbatches: int | None = None) -> tuple[list[str], bool]:
    """Sentences about missing, duplicate or misplaced passes, and whether all slots are actions or pairs."""
    if not any(schedule):
        return ["the schedule is empty: give every rank a list of slots"], False
    if strangers := _no_slots(schedule):
        return strangers, False
    stages, expected = num_stages(schedule), microbatches or num_microbatches(schedule)
    if _is_whole(schedule, stages, expected):  # fast path; finding out what is wrong takes longer
        return [], True
    places = _places(schedule)
    return _incomplete(places, stages, expected) or _misplaced(places), True


def _no_slots(schedule: Schedule) -> list[str]:
    """Sentences about entries in a student's list that are neither actions nor pairs."""
    return _first(
        [
            f"rank {rank}, slot {place} is {slot!r}: put an Action(kind, stage, microbatch) or an Overlap there"
            for rank, slots in enumerate(schedule)
            for place, slot in enumerate(slots)
            if not isinstance(slot, Action | Overlap)
        ]
    )


def _is_whole(schedule: Schedule, stages: int, microbatches: int) -> bool:
    """Whether every pass occurs once, and each backward is on the rank of its forward."""
    size = stages * microbatches
    counts = {kind: bytearray(size) for kind in (Kind.F, Kind.I, Kind.W)}
    homes = {kind: [-1] * size for kind in counts}
    halves = {Kind.F: (Kind.F,), Kind.I: (Kind.I,), Kind.W: (Kind.W,), Kind.B: (Kind.I, Kind.W)}
    for rank, slots in enumerate(schedule):
        for slot in slots:
            for action in (slot,) if isinstance(slot, Action) else actions_of(slot):
                if action.microbatch >= microbatches:
                    return False
                place = action.stage * microbatches + action.microbatch
                for kind in halves[action.kind]:
                    if counts[kind][place]:
                        return False
                    counts[kind][place], homes[kind][place] = 1, rank
    return all(all(count) for count in counts.values()) and homes[Kind.F] == homes[Kind.I] == homes[Kind.W]


def _places(schedule: Schedule) -> dict[tuple[str, int, int], list[Place]]:
    """Where each pass is: (letter, stage, microbatch) -> all (rank, slot) that have it."""
    places: dict[tuple[str, int, int], list[Place]] = {}
    for rank, slots in enumerate(schedule):
        for place, slot in enumerate(slots):
            for action in (slot,) if isinstance(slot, Action) else actions_of(slot):
                places.setdefault((action.kind.value, action.stage, action.microbatch), []).append((rank, place))
    return places


def _incomplete(places: dict[tuple[str, int, int], list[Place]], stages: int, microbatches: int) -> list[str]:
    """Sentences about incomplete passes. Each microbatch needs F in each stage, and B or both I and W, once each."""
    wrong = []
    for stage in range(stages):
        for microbatch in range(microbatches):
            wrong += _wrong_passes(
                {kind: places.get((kind, stage, microbatch), []) for kind in Kind}, stage, microbatch
            )
    wrong += [
        f"rank {found[0][0]}, slot {found[0][1]}: there is no microbatch {microbatch}, only 0 to {microbatches - 1}: "
        f"leave {stage}{letter}{microbatch} out"
        for (letter, stage, microbatch), found in places.items()
        if microbatch >= microbatches
    ]
    return _first(wrong)


def _wrong_passes(found: dict[Kind, list[Place]], stage: int, microbatch: int) -> list[str]:
    """Missing or duplicate passes of one microbatch in one stage, in the letters that the schedule itself uses."""
    halves = bool(found[Kind.I] or found[Kind.W])
    wrong = []
    for kind in (Kind.F, Kind.I, Kind.W) if halves else (Kind.F, Kind.B):
        there = found[kind] + (found[Kind.B] if kind in (Kind.I, Kind.W) else [])
        name = f"{stage}{kind}{microbatch}"
        if not there and kind is Kind.B:
            wrong.append(f"microbatch {microbatch} has no backward in stage {stage}: add it to the rank that holds it")
        elif not there:
            wrong.append(f"{name} is on no rank: add it to the rank that holds stage {stage}")
        elif len(there) > 1:
            listed = " and ".join(f"rank {rank}, slot {place}" for rank, place in there)
            why = " (a B is an I and a W)" if halves and found[Kind.B] and kind is not Kind.F else ""
            wrong.append(f"{name} occurs {len(there)} times, at {listed}: keep one{why}")
    return wrong


def _misplaced(places: dict[tuple[str, int, int], list[Place]]) -> list[str]:
    """Sentences about backwards that are not on their forward's rank, which holds the activations."""
    wrong = []
    for (letter, stage, microbatch), [(rank, place)] in places.items():
        home, _ = places["F", stage, microbatch][0]
        if rank != home:
            wrong.append(
                f"rank {rank}, slot {place}: {stage}{letter}{microbatch} needs the activations that "
                f"{stage}F{microbatch} left on rank {home}: move it there"
            )
    return _first(wrong)


def _too_much_held(schedule: Schedule, max_activations: int | Sequence[int] | None) -> list[str]:
    """The first slot at which each rank holds more activations than allowed."""
    if max_activations is None:
        return []
    bounds = [max_activations] * len(schedule) if isinstance(max_activations, int) else list(max_activations)
    if len(bounds) != len(schedule):
        raise ValueError(f"{len(bounds)} bounds for {len(schedule)} ranks: give {len(schedule)}, or one number for all")
    wrong = []
    for rank, (slots, bound) in enumerate(zip(schedule, bounds, strict=True)):
        held = 0
        for place, action in ((place, action) for place, slot in enumerate(slots) for action in actions_of(slot)):
            held += (action.kind is Kind.F) - (action.kind in (Kind.I, Kind.B))
            if held > bound:
                wrong.append(
                    f"rank {rank}, slot {place} ({action}): {held} activations are held but only {bound} allowed: "
                    "put a backward before it"
                )
                break
    return wrong


def _first(sentences: list[str]) -> list[str]:
    """The first few sentences, and how many more there are."""
    more = len(sentences) - SHOWN
    return sentences if more <= 0 else [*sentences[:SHOWN], f"... and {more} more of this kind"]
