"""Terminal output of grading: a progress bar, the class as a table, and why grading is refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from autograder.grading.verdict_files import SubmissionRecord, total
from autograder.sandboxes import zygote
from autograder.terminal import console


class Bar:
    """A progress bar over submissions, with the estimated time left."""

    def __init__(self, total: int) -> None:
        columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("grading", total=total)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def step(self, verdicts: SubmissionRecord) -> None:
        """Advance by one submission."""
        self._progress.advance(self._task)


def print_class(verdicts: list[SubmissionRecord], strangers: Sequence[str] = ()) -> None:
    """Print one line per student with points and exercises not yet right, then what the instructor should look at."""
    title = f"{len(verdicts)} submission" + ("" if len(verdicts) == 1 else "s")
    table = Table("student", "points", "of", "not yet right", title=title)
    for one in verdicts:
        exercises = one["exercises"]
        core = {name: exercise for name, exercise in exercises.items() if not exercise.get("optional")}
        wrong = [name.split(".")[1] for name, exercise in core.items() if exercise["points"] < exercise["max"]]
        points, most = total(one)
        table.add_row(escape(one["student"]), f"{points:g}", f"{most:g}", ", ".join(wrong) or "–")
    console.print(table)
    faults, marked = (_students_with(verdicts, mark) for mark in ("fault", "look"))
    if faults:
        console.print(f"[bold]Grade again[/bold]: the machine failed while grading {faults}.")
    if marked:
        console.print(f"[bold]Look at[/bold]: not judged and scored 0, although the machine works: {marked}.")
    for sentence in strangers:
        console.print(escape(sentence))


def _students_with(verdicts: list[SubmissionRecord], mark: str) -> str:
    """Return the students who have an exercise with the given mark."""
    found = [one["student"] for one in verdicts if any(exercise.get(mark) for exercise in one["exercises"].values())]
    return escape(", ".join(found))


def print_stale(week: str, reasons: Mapping[str, str]) -> None:
    """Print which submissions of a week are graded again, and why."""
    console.print(escape(f"{week}: {len(reasons)} to grade"))
    for student, reason in reasons.items():
        console.print(escape(f"  {student}: {reason}"))


def publish(week: str, students: list[str], submitted: Path) -> None:
    """Write the gradebook and feedback pages of a week that has been entered, and print where they are."""
    from autograder.grading import publishing

    published = publishing.publish_entered(week, students, submitted=submitted)
    for one in published:
        if one.page is None:
            console.print(escape(f"{one.student}: {one.problem}"))
    pages = [one.page for one in published if one.page is not None]
    if pages:
        console.print(escape(f"{len(pages)} feedback pages, such as {pages[0]}"))


def no_isolation() -> str:
    """Explain why official grades are refused here, and what to do."""
    reasons = zygote.missing() or f"AUTOGRADER_LEVEL={zygote.level()} is set"
    return (
        f"This machine isolates submissions at level {zygote.level()} ({zygote.LEVELS[zygote.level()]}; {reasons}). "
        f"Grades need level {zygote.OFFICIAL} or higher: install bubblewrap and allow user namespaces, or install "
        "podman or docker. To try out answers without grading: --self-check --no-publish."
    )
