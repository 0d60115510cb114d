"""What `autograder grade` does: the gradebook is prepared, a week is judged, its points are written and published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autograder.authoring import agreement, notebooks
from autograder.grading import grade, publishing, reports, roster, tables
from autograder.grading.verdict_files import SubmissionRecord, folder_of
from autograder.reading.names import not_a_student
from autograder.sandboxes import zygote


@dataclass(frozen=True)
class Wishes:
    """How a week is to be graded; `seed`, `workers` and `scheduler` are those of `grade.grade`."""

    submitted: Path
    seed: int | None = None
    workers: int | None = None
    scheduler: str | None = None
    due: datetime | None = None
    publish: bool = True
    json_file: Path | None = None


def grade_week(week: str, wishes: Wishes, students: Sequence[str] | None = None) -> list[SubmissionRecord]:
    """Grade a week, or some students of it, and publish; a run that is killed at any moment is taken up again.

    Raises ValueError with a sentence, before anything is judged where that is possible.
    """
    strangers = _see_that_it_can_be_graded(week, wishes, students)
    names = list(students) if students is not None else grade.students_in(wishes.submitted, week)
    if not names:
        reports.print_class([], strangers)
        raise ValueError(f"no submission of {week} in {wishes.submitted}: it must hold STUDENT/{week}/{week}.ipynb")

    def write(verdicts: list[SubmissionRecord]) -> None:
        reports.print_class(verdicts, strangers)
        tables.write_class(week, verdicts, folder_of(notebooks.ROOT) / f"{week}.csv", notebooks.ROOT)
        if wishes.json_file is not None:
            wishes.json_file.write_text(json.dumps(tables.summary(verdicts), indent=1, ensure_ascii=False))
        if wishes.publish:
            _publish(week, names, verdicts, wishes.submitted)

    with reports.Bar(len(names)) as bar:
        return grade.grade(
            week,
            wishes.submitted,
            root=notebooks.ROOT,
            students=students,
            seed=wishes.seed,
            workers=wishes.workers,
            scheduler=wishes.scheduler,
            done=bar.step,
            then=write,
        )


def chosen(week: str, submitted: Path, students: Sequence[str], section: str) -> list[str] | None:
    """The named students and those of a section that have a submission; None means everybody."""
    if not students and not section:
        return None
    own = set(roster.of_course(notebooks.ROOT).in_section(section)) if section else set()
    return sorted({*students, *(own & set(grade.students_in(submitted, week)))})


def _see_that_it_can_be_graded(week: str, wishes: Wishes, students: Sequence[str] | None) -> list[str]:
    """Sentences on folders that are no student's. Raises ValueError where the class would be judged in vain."""
    agreement.refuse_disagreement(week)
    for one in students or []:
        if (reason := not_a_student(one)) is not None:
            raise ValueError(f"{one!r} is not a student: {reason}")
    strangers = [] if students is not None else grade.strangers_in(wishes.submitted, week)
    if wishes.publish:
        publishing.enter(week, notebooks.ROOT, wishes.due)
    return strangers


def _publish(week: str, students: list[str], verdicts: list[SubmissionRecord], submitted: Path) -> None:
    weak = sorted({one["student"] for one in verdicts if one["level"] < zygote.OFFICIAL})
    if weak:  # a worker of the cluster has no isolation, even where this machine has
        names = ", ".join(weak)
        raise ValueError(f"nothing is published: {names} judged where nothing isolates submissions; grade again")
    reports.publish(week, students, submitted)


def grade_what_changed(wishes: Wishes) -> int:
    """Grade, in all weeks, the submissions that have no verdict that holds; how many there were.

    Raises ValueError with a sentence.
    """
    weeks = {week: grade.stale(week, wishes.submitted, notebooks.ROOT) for week in notebooks.weeks()}
    for week, reasons in weeks.items():
        if reasons:
            reports.print_stale(week, reasons)
            grade_week(week, wishes, sorted(reasons))
    return sum(map(len, weeks.values()))
