"""A learner's progress, computed from the records: points, tries, hints and time, and what to do next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shardlab.study import records
from shardlab.study.folder import Folder
from shardlab.study.page import Exercise
from shardlab.study.records import Record

PAUSE = 30 * 60  # a longer gap between two records (seconds) counts as a break
HONEST = 3  # how many different answers must be checked before the course's solution is shown


@dataclass
class Standing:
    """One exercise: most points since its last reset, tries, levels of hints seen, and its last record."""

    exercise: Exercise
    points: float = 0.0
    tries: int = 0
    hints: set[int] = field(default_factory=set)
    answers: set[str] = field(default_factory=set)
    was_right: bool = False
    last: int = -1  # the index of its last record

    @property
    def is_right(self) -> bool:
        return self.points >= self.exercise.points

    @property
    def was_attempted(self) -> bool:
        """Whether the course's solution may be shown: after all points once, or three different answers."""
        return self.was_right or len(self.answers) >= HONEST


@dataclass(frozen=True)
class Week:
    """A week's exercises that have a check, and the seconds between its records without breaks."""

    name: str
    standings: list[Standing]
    num_written: int
    seconds: float

    @property
    def core(self) -> list[Standing]:
        """The exercises that are not optional."""
        return [one for one in self.standings if not one.exercise.is_optional]

    @property
    def points(self) -> float:
        """Points from the core and extra credit, so they can exceed `most`."""
        return sum(one.points for one in self.standings)

    @property
    def most(self) -> float:
        """The points of the core."""
        return sum(one.exercise.points for one in self.core)

    @property
    def is_done(self) -> bool:
        return all(one.is_right for one in self.core)

    @property
    def tries(self) -> int:
        return sum(one.tries for one in self.standings)

    @property
    def hints(self) -> int:
        return sum(len(one.hints) for one in self.standings)


def standings(exercises: Mapping[str, Exercise], rows: Sequence[Record]) -> dict[str, Standing]:
    """The progress on each exercise after these records.

    Checking a blank answer is not a try. Points count only for checks on the page's own cases.
    """
    found = {name: Standing(one) for name, one in exercises.items() if not one.is_written}
    for place, row in enumerate(rows):
        if (one := found.get(row["exercise"])) is None:
            continue
        one.last = place
        if row["event"] == "check" and not row.get("blank"):
            one.tries += 1
            one.answers.add(str(row.get("answer")))
            if row.get("whole", True):
                one.points = max(one.points, min(float(row.get("points", 0)), one.exercise.points))
                one.was_right |= one.is_right
        elif row["event"] == "reset":
            one.points = 0.0
        if isinstance(hint := row.get("hint"), int) and hint > 0:
            one.hints |= set(range(1, hint + 1))
    return found


def seconds_by_week(rows: Sequence[Record]) -> dict[str, float]:
    """{"week02": total seconds between consecutive records that are at most half an hour apart}.

    The time between two records counts for the week of the later one.
    """
    spent: dict[str, float] = defaultdict(float)
    for before, row in pairwise(rows):
        seconds = (records.when(row) - records.when(before)).total_seconds()
        if row["exercise"] and 0 <= seconds <= PAUSE:
            spent[row["exercise"].partition(".")[0]] += seconds
    return dict(spent)


def weeks(folder: Folder, rows: Sequence[Record]) -> list[Week]:
    """All weeks of the course, in order."""
    exercises = folder.exercises()
    standing, spent = standings(exercises, rows), seconds_by_week(rows)
    found = []
    for name in folder.weeks():
        short = name.split("_")[0]
        of_week = [one for one in standing.values() if one.exercise.week == short]
        written = sum(one.is_written for one in exercises.values() if one.week == short)
        found.append(Week(name, of_week, written, spent.get(short, 0.0)))
    return found


def next_exercise(found: Sequence[Week]) -> Standing | None:
    """The first core exercise without all points in the most recent page; None when every core is right.

    If no open page has been begun, the first open week: prerequisites may be skipped, and quizzes wait.
    """
    open_weeks = [week for week in found if not week.is_done]
    if not open_weeks:
        return None
    latest = max(open_weeks, key=lambda week: max(one.last for one in week.standings))
    touched = any(one.last >= 0 for one in latest.standings)
    chosen = latest if touched else next((one for one in open_weeks if one.name.startswith("week")), open_weeks[0])
    return next(one for one in chosen.core if not one.is_right)
