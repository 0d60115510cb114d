"""The steps of `autograder grade`: prepare the gradebook, judge a week, write its points and publish them."""

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
    """How to grade a week; `seed`, `workers` and `scheduler` are passed to `grade.grade`."""

    submitted: Path
    seed: int | None = None
    workers: int | None = None
    scheduler: str | None = None
    due: datetime | None = None
    publish: bool = True
    json_file: Path | None = None


def grade_week(week: str, wishes: Wishes, students: Sequence[str] | None = None) -> list[SubmissionRecord]:
    """Grade a week, or some of its students, and publish. If a run is killed at any moment, the next one resumes it.

    Raises ValueError with a one-sentence reason, if possible before judging anything.
    """
    strangers = _see_that_it_can_be_graded(week, wishes, students)
    names = list(students) if students is not None else grade.students_in(wishes.submitted, week)
    if not names:
        reports.print_class([], strangers)
        raise ValueError(f"no submission of {week} in {wishes.submitted}: it must contain STUDENT/{week}/{week}.ipynb")

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
    """Return the named students plus those of a section who submitted; None means everybody."""
    if not students and not section:
        return None
    own = set(roster.of_course(notebooks.ROOT).in_section(section)) if section else set()
    return sorted({*students, *(own & set(grade.students_in(submitted, week)))})


def _see_that_it_can_be_graded(week: str, wishes: Wishes, students: Sequence[str] | None) -> list[str]:
    """Return sentences about folders that belong to no student. Raises ValueError if judging would be in vain."""
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
    if weak:  # a cluster worker may lack isolation even if this machine has it
        names = ", ".join(weak)
        raise ValueError(f"nothing is published: {names} judged on a machine without isolation; grade again")
    reports.publish(week, students, submitted)


def grade_what_changed(wishes: Wishes) -> int:
    """Grade the submissions of all weeks that have no valid verdict; return how many there were.

    Raises ValueError with a one-sentence reason.
    """
    weeks = {week: grade.stale(week, wishes.submitted, notebooks.ROOT) for week in notebooks.weeks()}
    for week, reasons in weeks.items():
        if reasons:
            reports.print_stale(week, reasons)
            grade_week(week, wishes, sorted(reasons))
    return sum(map(len, weeks.values()))
