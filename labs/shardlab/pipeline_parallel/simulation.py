"""Simulate a schedule: when each slot begins and ends, how long each rank idles, and what it must hold."""

from dataclasses import dataclass

from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import (
    Action,
    Kind,
    Overlap,
    Schedule,
    actions_of,
    inputs_of,
    num_microbatches,
    num_stages,
    result_of,
)


@dataclass(frozen=True)
class Timeline:
    """begins[rank][i] and ends[rank][i]: the time in seconds of slot i on that rank. Simulated or measured."""

    schedule: Schedule
    begins: list[list[float]]
    ends: list[list[float]]

    @property
    def makespan(self) -> float:
        """The time from the first begin to the last end, over all ranks."""
        return max((ends[-1] for ends in self.ends if ends), default=0.0) - self._first

    @property
    def busy(self) -> list[float]:
        """The seconds that each rank computes."""
        return [
            sum(end - begin for begin, end in zip(begins, ends, strict=True))
            for begins, ends in zip(self.begins, self.ends, strict=True)
        ]

    @property
    def idle(self) -> list[float]:
        """The bubble by makespan: the seconds of the whole step during which a rank does not compute."""
        return [self.makespan - busy for busy in self.busy]

    @property
    def span_idle(self) -> list[float]:
        """The bubble by a rank's own span, from its first begin to its last end (the sense of "zero bubble")."""
        spans = [ends[-1] - begins[0] if ends else 0.0 for begins, ends in zip(self.begins, self.ends, strict=True)]
        return [span - busy for span, busy in zip(spans, self.busy, strict=True)]

    @property
    def bubble(self) -> float:
        """The largest idle fraction of the makespan on any rank."""
        return max(self.idle) / self.makespan if self.makespan else 0.0

    @property
    def _first(self) -> float:
        return min((begins[0] for begins in self.begins if begins), default=0.0)


# A slot as numbers: its seconds, the results it needs, and the results it produces. A result is an index in a flat
# list, which avoids hashing: a schedule of 64 ranks and 1024 microbatches is simulated in half a second.
_Step = tuple[float, tuple[int, ...], tuple[int, ...]]


def simulate(schedule: Schedule, durations: Durations | None = None) -> Timeline:
    """Start every slot as soon as its rank is free and its inputs have arrived.

    Raises ValueError if no rank can continue, naming ranks, slots and missing inputs, or if durations are missing.
    """
    durations = durations or Durations()
    stages, microbatches = num_stages(schedule), num_microbatches(schedule)
    steps = _in_numbers(schedule, durations, stages, microbatches)
    results = 2 * stages * microbatches
    ready: list[float | None] = [None] * results  # when each result is ready on the rank that computes it
    homes = [-1] * results  # and which rank that is
    begins: list[list[float]] = [[] for _ in schedule]
    ends: list[list[float]] = [[] for _ in schedule]

    def advance(rank: int) -> bool:
        """Run this rank until an input is missing. Returns whether it ran anything."""
        mine, clock, first = steps[rank], ends[rank][-1] if ends[rank] else 0.0, len(ends[rank])
        for place in range(first, len(mine)):
            seconds, needs, gives = mine[place]
            for result in needs:
                time = ready[result]
                if time is None:
                    return place > first
                if homes[result] != rank:
                    time += durations.message
                clock = max(clock, time)
            begins[rank].append(clock)
            clock += seconds
            ends[rank].append(clock)
            for result in gives:
                ready[result], homes[result] = clock, rank
        return len(mine) > first

    while any([advance(rank) for rank in range(len(schedule))]):
        pass
    if any(len(done) < len(slots) for done, slots in zip(ends, schedule, strict=True)):
        raise ValueError(explain_stuck(schedule, [len(done) for done in ends]))
    return Timeline(schedule, begins, ends)


def _in_numbers(schedule: Schedule, durations: Durations, stages: int, microbatches: int) -> list[list[_Step]]:
    """Every slot as a `_Step`. Index 2(sM + m) is the forward of stage s and microbatch m, the next its backward."""
    seconds = durations.table(stages)

    def place(result: Action) -> int:
        return 2 * (result.stage * microbatches + result.microbatch) + (result.kind is Kind.I)

    def places(kind: Kind, stage: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The results that microbatch 0 needs and produces. Those of the next microbatch are two indices further."""
        action = Action(kind, stage, 0)
        result = result_of(action)
        return tuple(map(place, inputs_of(action, stages))), () if result is None else (place(result),)

    known = {kind: [places(kind, stage) for stage in range(stages)] for kind in Kind}

    def step(kind: Kind, stage: int, microbatch: int) -> _Step:
        needs, gives = known[kind][stage]
        shift = 2 * microbatch
        return seconds[kind][stage], tuple([n + shift for n in needs]), tuple([g + shift for g in gives])

    def pair(slot: Overlap) -> _Step:
        (_, needs, gives), (_, more_needs, more_gives) = (step(a.kind, a.stage, a.microbatch) for a in actions_of(slot))
        return (durations.of_slot(slot), needs + more_needs, gives + more_gives)

    return [
        [step(slot.kind, slot.stage, slot.microbatch) if isinstance(slot, Action) else pair(slot) for slot in slots]
        for slots in schedule
    ]


def explain_stuck(schedule: Schedule, done: list[int]) -> str:
    """Why no rank can continue: each waiting rank's slot, and where its missing input would come from.

    done[rank]: the number of slots that this rank has finished.
    """
    finished = {
        result_of(a) for slots, n in zip(schedule, done, strict=True) for slot in slots[:n] for a in actions_of(slot)
    }
    waiting = {
        result_of(action): (rank, place, action)
        for rank, slots in enumerate(schedule)
        for place, slot in enumerate(slots[done[rank] :], done[rank])
        for action in actions_of(slot)
        if action.kind is not Kind.W
    }
    sentences = []
    for rank, slots in enumerate(schedule):
        if done[rank] == len(slots):
            continue
        slot = slots[done[rank]]
        needed = [need for action in actions_of(slot) for need in inputs_of(action, num_stages(schedule))]
        missing = next(need for need in needed if need not in finished)
        if missing in waiting:
            there, place, missing = waiting[missing]  # named as in the schedule: a full backward is a B
            source = f"which is slot {place} of rank {there}: move it before the slots that wait for it"
        else:
            source = "which is on no rank: add it"
        sentences.append(f"rank {rank}, slot {done[rank]} ({slot}) waits for {missing}, {source}")
    return "no rank can continue: " + "; ".join(sentences)


def peak_activations(schedule: Schedule, *, until: Kind = Kind.I) -> list[int]:
    """The peak number of microbatch activations that each rank holds, counted per stage of the schedule.

    A forward adds one. The input gradient frees it (until=I, which is how the Zero Bubble papers count what an input
    gradient needs), or only the weight gradient does (until=W). A full backward frees it in both cases. In an
    overlapped pair, the forward's activations are held before the backward's are freed.
    """
    if until not in (Kind.I, Kind.W):
        raise ValueError(f"activations are held until I or W, not until {until}: use until=Kind.I or Kind.W")
    peaks = []
    for slots in schedule:
        held = peak = 0
        for slot in slots:
            for action in actions_of(slot):
                held += (action.kind is Kind.F) - (action.kind in (until, Kind.B))
                peak = max(peak, held)
        peaks.append(peak)
    return peaks
