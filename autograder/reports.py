"""What the autograder prints: a progress bar, the class as a table, the kill matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from autograder import sandbox
from autograder.own_solutions import Row
from autograder.terminal import console
from autograder.verdict_files import Verdicts


class Bar:
    """A progress bar over submissions, with the time that is left."""

    def __init__(self, total: int) -> None:
        columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("grading", total=total)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def step(self, verdicts: Verdicts) -> None:
        """One submission is done."""
        self._progress.advance(self._task)


def print_class(verdicts: list[Verdicts], strangers: Sequence[str] = ()) -> None:
    """One line per student: points, the exercises that are not yet right; then what the instructor should look at."""
    title = f"{len(verdicts)} submission" + ("" if len(verdicts) == 1 else "s")
    table = Table("student", "points", "of", "not yet right", title=title)
    for one in verdicts:
        exercises = one["exercises"]
        wrong = [name.split(".")[1] for name, exercise in exercises.items() if exercise["points"] < exercise["max"]]
        points, most = (sum(exercise[key] for exercise in exercises.values()) for key in ("points", "max"))
        table.add_row(escape(one["student"]), f"{points:g}", f"{most:g}", ", ".join(wrong) or "–")
    console.print(table)
    faults, marked = (_students_with(verdicts, mark) for mark in ("fault", "look"))
    if faults:
        console.print(f"[bold]Grade again[/bold]: the machine failed while grading {faults}.")
    if marked:
        console.print(f"[bold]Look at[/bold]: not judged, which counts as 0, though the machine works: {marked}.")
    for sentence in strangers:
        console.print(escape(sentence))


def _students_with(verdicts: list[Verdicts], mark: str) -> str:
    """The students of whom an exercise bears a mark."""
    found = [one["student"] for one in verdicts if any(exercise.get(mark) for exercise in one["exercises"].values())]
    return escape(", ".join(found))


def print_stale(week: str, reasons: Mapping[str, str]) -> None:
    """Which submissions of a week are graded again, and why."""
    console.print(escape(f"{week}: {len(reasons)} to grade"))
    for student, reason in reasons.items():
        console.print(escape(f"  {student}: {reason}"))


def publish(week: str, students: list[str], submitted: Path) -> None:
    """Write gradebook and feedback pages of a week that has been entered, and say where they are."""
    from autograder import publishing

    published = publishing.publish_entered(week, students, submitted=submitted)
    for one in published:
        if one.page is None:
            console.print(escape(f"{one.student}: {one.problem}"))
    pages = [one.page for one in published if one.page is not None]
    if pages:
        console.print(escape(f"{len(pages)} feedback pages, such as {pages[0]}"))


def print_kill_matrix(weeks: list[str] | None) -> bool:
    """Judge all kept answers and print them by exercise; True when all ended as they must, and enough of them in sight.

    Wrong answers that pass the visible check follow, each with its reason.
    """
    from autograder.kill_matrix import IN_SIGHT, rows, share_in_sight

    table = Table("exercise", "wrong, dead", "dead in sight", "right, alive", "not as expected", title="Kill matrix")
    judged = list(rows(weeks))
    for exercise in dict.fromkeys(row.exercise for row in judged):
        mine = [row for row in judged if row.exercise == exercise]
        dead = sum(not (row.must_live or row.lived) for row in mine)
        alive = sum(row.must_live and row.lived for row in mine)
        bad = [f"{row.name} {'lived' if row.lived else 'died'}" for row in mine if not row.ended_as_expected]
        seen = sum(row.in_sight for row in mine)
        table.add_row(exercise, str(dead), str(seen), str(alive), ", ".join(bad) or "–")
    console.print(table)
    for row in (row for row in judged if not (row.must_live or row.in_sight)):
        console.print(f"Not in sight: {row.exercise} {row.name}: {row.reason or 'no reason is stated'}", soft_wrap=True)
    share, due = share_in_sight(judged), sum(row.ended_as_expected for row in judged)
    console.print(f"{due} of {len(judged)} ended as they must; {share:.1%} of the wrong ones die in sight.")
    return due == len(judged) and share >= IN_SIGHT and not any(row.is_unexplained for row in judged)


def print_own_solutions(rows: Sequence[Row]) -> bool:
    """A line per week and seed, and what cost a point; True when nothing did."""
    table = Table("week", "seed", "points", "of", "lost", title="The course's own solutions, handed in")
    for row in rows:
        table.add_row(row.week, str(row.seed), f"{row.points:g}", f"{row.max:g}", "\n".join(row.lost) or "–")
    full = sum(not row.lost for row in rows)
    console.print(table, f"{full} of {len(rows)} got every automatic point.")
    return full == len(rows)


def no_isolation() -> str:
    """Why official grades are refused here, and what to do."""
    reasons = sandbox.missing() or f"AUTOGRADER_LEVEL={sandbox.level()} is set"
    return (
        f"This machine isolates submissions at level {sandbox.level()} ({sandbox.LEVELS[sandbox.level()]}; {reasons}). "
        f"Grades need level {sandbox.OFFICIAL} or more: install bubblewrap and allow user namespaces, or install "
        "podman or docker. To try answers out all the same: --self-check --no-publish."
    )
