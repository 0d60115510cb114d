"""Summarize the verdicts of a week with the sentences that several students received, and render a page about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autograder.grading.verdict_files import SubmissionRecord

NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
LONGEST = 240  # characters per sentence on the page; some quote an answer


@dataclass(frozen=True)
class Mistake:
    """A sentence that several students received, ignoring numbers; `sentence` is the first student's."""

    sentence: str
    students: tuple[str, ...]


@dataclass(frozen=True)
class Exercise:
    """One exercise: each student's points in class order, and the mistakes, most frequent first."""

    name: str
    max: float
    points: tuple[float, ...]
    mistakes: tuple[Mistake, ...]
    optional: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """Count the students with all points, some, or none."""
        full = sum(one >= self.max for one in self.points)
        none = sum(one <= 0 for one in self.points)
        return {"full": full, "part": len(self.points) - full - none, "none": none}

    @property
    def share(self) -> float:
        """Mean points divided by possible points."""
        return mean(self.points) / self.max if self.max else 0.0


@dataclass(frozen=True)
class Week:
    """A graded week, without written answers, which a person grades. seconds: grading time per submission.

    stale: students whose submission has no valid verdict, and why; older: number of verdicts from other checks.
    """

    name: str
    students: tuple[str, ...]
    exercises: tuple[Exercise, ...]
    seconds: tuple[float, ...]
    graded: str
    faults: tuple[str, ...]
    looks: tuple[str, ...]
    stale: dict[str, str] = field(default_factory=dict)
    older: int = 0

    @property
    def max(self) -> float:
        """Points available from automatic checks of the core; optional points come on top."""
        return sum(one.max for one in self.exercises if not one.optional)

    @property
    def totals(self) -> list[float]:
        """Points of each student."""
        return [sum(one.points[place] for one in self.exercises) for place in range(len(self.students))]

    @property
    def usual_seconds(self) -> float:
        """Median grading time of a submission."""
        return median(self.seconds) if self.seconds else 0.0


def summarise(
    name: str, verdicts: Sequence[SubmissionRecord], stale: Mapping[str, str] | None = None, checks: str = ""
) -> Week:
    """Summarize a class's week from its verdict files; an exercise missing from a verdict counts as 0.

    `stale` is the result of `grade.stale`, `checks` the hash of the week's current checks.

    Raises ValueError when nobody was graded.
    """
    if not verdicts:
        raise ValueError(f"nobody has been graded in {name}: run `autograder grade {name}` first")
    exercises = dict.fromkeys(exercise for one in verdicts for exercise in one["exercises"])
    return Week(
        name=name,
        students=tuple(one["student"] for one in verdicts),
        exercises=tuple(_exercise(exercise, verdicts) for exercise in exercises),
        seconds=tuple(float(one.get("seconds", 0)) for one in verdicts),
        graded=max(str(one.get("time", "")) for one in verdicts),
        faults=_marked(verdicts, "fault"),
        looks=_marked(verdicts, "look"),
        stale=dict(stale or {}),
        older=sum(one.get("checks") != checks for one in verdicts) if checks else 0,
    )


def _exercise(name: str, verdicts: Sequence[SubmissionRecord]) -> Exercise:
    found = [one["exercises"].get(name, {"points": 0.0, "max": 0.0, "text": ""}) for one in verdicts]
    most = max(float(one["max"]) for one in found)
    told: dict[str, tuple[str, list[str]]] = {}
    for verdict, one in zip(verdicts, found, strict=True):
        if float(one["points"]) < most:
            sentence = _shortened(str(one["text"]))
            told.setdefault(without_numbers(sentence), (sentence, []))[1].append(verdict["student"])
    mistakes = [Mistake(sentence, tuple(students)) for sentence, students in told.values()]
    mistakes.sort(key=lambda one: -len(one.students))
    optional = any(one.get("optional") for one in found)
    return Exercise(name, most, tuple(float(one["points"]) for one in found), tuple(mistakes), optional)


def without_numbers(sentence: str) -> str:
    """Replace each number with `#`: inputs differ in every grading, but the mistake stays the same."""
    return NUMBER.sub("#", sentence)


def _shortened(text: str) -> str:
    first = " ".join(text.split())
    return first if len(first) <= LONGEST else first[: LONGEST - 1] + "…"


def _marked(verdicts: Sequence[SubmissionRecord], mark: str) -> tuple[str, ...]:
    return tuple(one["student"] for one in verdicts if any(each.get(mark) for each in one["exercises"].values()))


SHOWN = 5  # mistakes per exercise; the others are only counted


def page(weeks: Sequence[Week], *, names: bool = True, ungraded: Mapping[str, int] | None = None) -> str:
    """Return the HTML of some weeks. names: False omits all students, which makes a page you can show to the class.

    `ungraded` counts the submissions of weeks in which nobody has been graded.
    """
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined
    )
    return templates.get_template("dashboard.html.j2").render(
        weeks=weeks, names=names, shown=SHOWN, ungraded=ungraded or {}
    )
