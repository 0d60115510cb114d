"""When each unit is gathered, used and freed, as data. The check simulates the plan.

An order is correct if it is legal, holds at most the units of prefetch + 1 passes, and neither gathers more often nor
waits longer for the link than a sliding window over the passes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of

_EVENT = re.compile(r"(gather|forward|backward|free) (\d{1,3})")
CLOCKS = ((1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 3.0))  # seconds of a gather and a forward; a backward takes two
MOST_EVENTS = 8  # per unit: gathered, used and freed twice, with some to spare
SLACK = 1e-9


class WrongPlan(ValueError):
    """Raised for a plan that cannot run. The message is for the student."""


class Played(NamedTuple):
    """Cost of a plan: the most units held at once, gathers, and seconds of waiting on each clock."""

    held: int
    gathers: int
    exposed: tuple[float, ...]


def window_plan(num_units: int, prefetch: int) -> list[str]:
    """The plan that holds exactly the units of each pass and of the next `prefetch` passes, and frees all others."""
    passes = [*range(num_units), *reversed(range(num_units))]
    plan, held = [], set()
    for place, unit in enumerate(passes):
        for ahead in passes[place : place + prefetch + 1]:
            plan += [f"gather {ahead}"] if ahead not in held else []
            held.add(ahead)
        plan.append(f"{'forward' if place < num_units else 'backward'} {unit}")
        done = held - set(passes[place + 1 : place + prefetch + 2])
        plan += [f"free {one}" for one in sorted(done)]
        held -= done
    return plan


def play(plan: Sequence[str], num_units: int) -> Played:
    """Run a plan. Raises WrongPlan for a use before a gather, a unit left over, or a missing or misplaced pass."""
    held, most, used = set(), 0, []
    for text in plan:
        verb, unit = _parsed(text, num_units)
        if verb == "gather":
            if unit in held:
                raise WrongPlan(f"'{text}': unit {unit} is already gathered; gathering it again sends it twice.")
            held.add(unit)
            most = max(most, len(held))
        elif unit not in held:
            raise WrongPlan(f"'{text}': unit {unit} is not gathered. Gather it first.")
        elif verb == "free":
            held.remove(unit)
        else:
            used.append(text)
    expected = [f"forward {unit}" for unit in range(num_units)] + [
        f"backward {unit}" for unit in reversed(range(num_units))
    ]
    if used != expected:
        wrong = next((a for a, b in zip(used, expected, strict=False) if a != b), None)
        where = f"'{wrong}' comes too early" if wrong else f"{len(used)} passes where {len(expected)} are expected"
        raise WrongPlan(f"{where}: all units forward in order, then all backward in reverse.")
    if held:
        raise WrongPlan(f"At the end unit {min(held)} is still gathered on every rank. Free it.")
    gathers = sum(text.startswith("gather") for text in plan)
    return Played(most, gathers, tuple(_waited(plan, *clock) for clock in CLOCKS))


def _parsed(text: object, num_units: int) -> tuple[str, int]:
    match = _EVENT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise WrongPlan(f"{text!r:.60} is not an event: write 'gather 3', 'forward 3', 'backward 3' or 'free 3'.")
    if int(match[2]) >= num_units:
        raise WrongPlan(f"'{text}': there is no unit {match[2]}, only 0 to {num_units - 1}.")
    return match[1], int(match[2])


def _waited(plan: Sequence[str], gather: float, forward: float) -> float:
    """Seconds in which the GPU waits. Gathers run one after another, in parallel with the passes that follow them."""
    now = link_is_free = waited = 0.0
    arrives: dict[str, float] = {}
    for text in plan:
        verb, unit = text.split()
        if verb == "gather":
            arrives[unit] = link_is_free = max(now, link_is_free) + gather
        elif verb != "free":
            waited += max(0.0, arrives[unit] - now)
            now = max(now, arrives[unit]) + (forward if verb == "forward" else 2 * forward)
    return waited


def _make(case: Case, rng: Random) -> Task:
    sizes = [case["num_units"], case["prefetch"]]
    return Task("gather_plan", 1, inputs=[[sizes]], expected=[play(window_plan(*sizes), sizes[0])], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected, num = value_of(reply), task.expected[0], case["num_units"]
    told = f"With {num} units and prefetch {case['prefetch']}"
    if not isinstance(received, list | tuple) or len(received) > MOST_EVENTS * num:
        return f"{told}: return one list of at most {MOST_EVENTS * num} strings such as 'gather 0'."
    try:
        problem = _costs_more(play(received, num), expected)
    except WrongPlan as error:
        problem = str(error)
    return problem and f"{told}: {problem}"


def _costs_more(mine: Played, expected: Played) -> str | None:
    if mine.held > expected.held:
        return f"{mine.held} units are gathered at once where {expected.held} may be. What can be freed sooner?"
    if mine.gathers > expected.gathers:
        enough = f"{mine.gathers} gathers where {expected.gathers} are enough"
        return f"{enough}. You free a unit that one of the next passes needs."
    for clock, waited, least in zip(CLOCKS, mine.exposed, expected.exposed, strict=True):
        if waited > least + SLACK:
            return (
                f"if a gather takes {clock[0]:g} s and a forward {clock[1]:g} s, the GPU waits {waited:g} s where "
                f"{least:g} s are enough. Which gather could have been started earlier?"
            )
    return None


def _draw(rng: Random) -> list[Case]:
    pairs = [(rng.randint(3, 9), 0), (rng.randint(4, 12), 1), (rng.randint(5, 12), 2), (2, 5), (1, rng.randint(0, 2))]
    pairs += [(rng.randint(7, 20), rng.randint(3, 5))]
    return [{"num_units": units, "prefetch": prefetch} for units, prefetch in pairs]


CHECK = Check(
    exercise="week04.plan",
    points=3,
    names=("gather_plan",),
    public=({"num_units": 3, "prefetch": 0}, {"num_units": 4, "prefetch": 1}),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.data_parallel",),
    hints=(
        "Write the 2L passes as one list of unit numbers first: 0, 1, …, L-1, L-1, …, 1, 0.",
        "Before pass i the units of passes i to i + prefetch must be gathered or on their way; after it, keep those "
        "of passes i + 1 to i + 1 + prefetch.",
        "Keep a set `held`. For each pass: gather what is in the window but not in held; run the pass; free what is "
        "not in the next window.",
    ),
)
