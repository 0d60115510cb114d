"""Helpers for checks of pipeline schedules: parse a student's lists of strings and compare them with a reference.

A builder returns a list of strings such as "1F3" for each rank. This module parses that plain data into a schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from shardlab.pipeline_parallel.check import problems
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Kind, Schedule, all_actions, parse_schedule
from shardlab.pipeline_parallel.simulation import Timeline, peak_activations, simulate

from autograder.checks.base import Case, Reply, Task
from autograder.checks.formulas import shown, trouble_in_call

BUILDERS = ("shardlab.pipeline_parallel.builders",)  # implement the schedules
PASSES = 3  # a microbatch passes a stage at most three times: F, I and W
MOST_TEXT = 40  # characters; an overlapped pair of three-digit numbers has 27
SLACK = 1e-6

Question = Callable[[Case, Task, Schedule], str | None]


class WrongSchedule(ValueError):
    """The answer is not a legal schedule of the requested sizes; the message is shown to the student."""


# ---- cases ----------------------------------------------------------------------------------------------------------


def schedule_task(call: str, reference: Callable[..., Schedule], names: Sequence[str] = ()) -> Any:
    """Return a `make` for a check: `call` gets num_ranks, num_microbatches and `names`; the reference stays here."""
    arguments = ("num_ranks", "num_microbatches", *names)

    def make(case: Case, rng: Random) -> Task:
        given = [case[name] for name in arguments]
        return Task(call=call, ranks=1, inputs=[[given]], expected=[reference(*given)], groups=[])

    return make


def drawn_sizes(rng: Random) -> list[Case]:
    """All small sizes (1 to 5 ranks, up to 2P + 1 microbatches), and two random sizes with 6 to 8 ranks.

    Small sizes are always included, so that an order which fails for one remainder of M by P fails for every seed.
    """
    many = rng.randint(6, 8)
    pairs = [(ranks, microbatches) for ranks in range(1, 6) for microbatches in range(1, 2 * ranks + 2)]
    pairs += [(many, rng.randint(2, many - 2)), (many, rng.randint(2 * many, 24))]
    return [{"num_ranks": ranks, "num_microbatches": microbatches} for ranks, microbatches in pairs]


# ---- from strings to a schedule -------------------------------------------------------------------------------------


def schedule_in(
    reply: Reply, *, num_ranks: int, num_microbatches: int, stages: int | None = None, copies: int = 1
) -> Schedule:
    """The legal schedule that a builder returned; raises WrongSchedule with the rank, slot and missing input.

    stages: of the whole pipeline, by default one per rank. copies: on how many ranks each stage runs (2 in DualPipe).
    Sizes are checked before parsing, so that no answer costs more than an honest one.
    """
    stages = stages or num_ranks
    schedule = _parsed(_texts_in(reply, num_ranks, PASSES * stages * num_microbatches * copies))
    for action in all_actions(schedule):
        if action.stage >= stages:
            raise WrongSchedule(f"{action} names stage {action.stage}, but stages are numbered 0 to {stages - 1}.")
        if action.microbatch >= num_microbatches:
            last = num_microbatches - 1
            wrong = f"{action} names microbatch {action.microbatch}"
            raise WrongSchedule(f"{wrong}, but microbatches are numbered 0 to {last}.")
    if {action.stage for action in all_actions(schedule)} != set(range(stages)):
        raise WrongSchedule(f"Some of the {stages} stages have no slots.")
    if wrong := problems(schedule, microbatches=num_microbatches):
        raise WrongSchedule("This schedule cannot run.\n" + "\n".join(wrong))
    return schedule


def _texts_in(reply: Reply, num_ranks: int, most_slots: int) -> list[list[str]]:
    """The returned lists, if there is one list of short strings per rank and none is longer than a schedule can be."""
    answers = reply.ranks[0].get("answers")
    reported = answers[0].get("value") if isinstance(answers, list) and answers else None
    value = reported.get("plain") if isinstance(reported, dict) else None
    if isinstance(reported, dict) and "not_plain" in reported:
        raise WrongSchedule(f'The function returns {reported["not_plain"]}: return lists of strings such as "1F3".')
    if not isinstance(value, list | tuple) or len(value) != num_ranks:
        raise WrongSchedule(f'Return one list of strings such as "1F3" for each of the {num_ranks} ranks.')
    for rank, slots in enumerate(value):
        if not isinstance(slots, list | tuple):
            raise WrongSchedule(f'The entry of rank {rank} must be a list of strings such as "1F3".')
        if len(slots) > most_slots:
            raise WrongSchedule(f"Rank {rank} has {len(slots)} slots; all ranks together need at most {most_slots}.")
        for place, text in enumerate(slots):
            if not isinstance(text, str) or len(text) > MOST_TEXT:
                raise WrongSchedule(f'Rank {rank}, slot {place} is not a short string such as "1F3".')
    return [list(slots) for slots in value]


def _parsed(texts: list[list[str]]) -> Schedule:
    try:
        return parse_schedule(texts)
    except ValueError as error:
        raise WrongSchedule(f"{error}.") from None


# ---- questions about a legal schedule --------------------------------------------------------------------------------


def judge_schedule(*questions: Question, stages: Callable[[Case], int] | None = None, copies: int = 1) -> Any:
    """A judge that parses the schedule, then asks the questions in turn and returns the first complaint."""

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        if problem := trouble_in_call(reply):
            return problem
        try:
            schedule = schedule_in(
                reply,
                num_ranks=case["num_ranks"],
                num_microbatches=case["num_microbatches"],
                stages=stages(case) if stages else None,
                copies=copies,
            )
        except WrongSchedule as wrong:
            return f"For ({sizes_of(case)}): {wrong}"
        for question in questions:
            if problem := question(case, task, schedule):
                return f"For ({sizes_of(case)}): {problem}"
        return None

    return judge


def sizes_of(case: Case) -> str:
    """Format a case as its builder's arguments."""
    return shown({name: value for name, value in case.items() if name != "part"})


def same_homes(case: Case, task: Task, schedule: Schedule) -> str | None:
    """Check that every rank computes exactly the stages that it holds."""
    for rank, (mine, expected) in enumerate(zip(schedule, task.expected[0], strict=True)):
        received, own = ({action.stage for action in all_actions([slots])} for slots in (mine, expected))
        if received != own:
            return f"Rank {rank} computes stages {sorted(received)}; it holds {sorted(own)}."
    return None


def same_order(case: Case, task: Task, schedule: Schedule) -> str | None:
    """Check that each rank has the reference's slots in order; use this only if the paper fixes the order."""
    for rank, (mine, expected) in enumerate(zip(schedule, task.expected[0], strict=True)):
        for place, (received, wanted) in enumerate(zip(mine, expected, strict=False)):
            if received != wanted:
                where = f"rank {rank}, slot {place}"
                return f"Legal, but {where} is {received}: the paper's order has a different pass there."
        if len(mine) != len(expected):
            return f"Rank {rank} has {len(mine)} slots, expected {len(expected)}."
    return None


def as_quick(durations: Durations | None = None) -> Question:
    """Check that the step takes no longer than the reference's, with the same durations."""

    def question(case: Case, task: Task, schedule: Schedule) -> str | None:
        return too_slow(schedule, simulate(task.expected[0], durations).makespan, durations)

    return question


def held_as_expected(until: Kind = Kind.I) -> Question:
    """Check that no rank ever holds more activations than in the reference."""

    def question(case: Case, task: Task, schedule: Schedule) -> str | None:
        return too_much_held(schedule, peak_activations(task.expected[0], until=until), until)

    return question


def too_slow(schedule: Schedule, most: float, durations: Durations | None = None) -> str | None:
    """Report the longest wait if the step takes longer than `most`."""
    timeline = simulate(schedule, durations)
    if timeline.makespan <= most + SLACK:
        return None
    return f"Legal, but the step takes {timeline.makespan:g}, but {most:g} is possible. {longest_wait(timeline)}"


def too_much_held(schedule: Schedule, most: Sequence[int], until: Kind = Kind.I) -> str | None:
    """Report the first rank that holds more activations than its entry in `most`."""
    for rank, (peak, expected) in enumerate(zip(peak_activations(schedule, until=until), most, strict=True)):
        if peak > expected:
            return (
                f"Legal, but rank {rank} holds the activations of {peak} microbatches at once; {expected} are enough."
            )
    return None


def longest_wait(timeline: Timeline) -> str:
    """Name the rank that waits longest between two slots, and the slot that it waits for."""
    waits = [
        (begin - end, -rank, -place - 1)
        for rank, (begins, ends) in enumerate(zip(timeline.begins, timeline.ends, strict=True))
        for place, (end, begin) in enumerate(zip(ends, begins[1:], strict=False))
    ]
    seconds, rank, place = max(waits, default=(0.0, 0, 0))
    if seconds <= SLACK:
        return "No rank waits between two slots: the idle time is before a rank's first slot or after its last."
    slot = timeline.schedule[-rank][-place]
    return f"The longest wait: rank {-rank} is idle for {seconds:g} before {slot}, its slot {-place}."
