"""Grade the submissions of a week: read as data, judge in the sandbox, write verdicts.

A failure in one submission becomes that submission's verdict; the rest of the class is graded as usual. One process
writes. It can be killed at any moment: every verdict file is complete, and the next run resumes where this one stopped,
with the same inputs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autograder import weeks
from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.grading.hashes import checks_hash, sealed
from autograder.grading.verdict_files import (
    SubmissionRecord,
    kept,
    only_writer,
    run_of,
    unended_run,
    verdict_file,
    versions,
    why_stale,
    write_verdicts,
)
from autograder.judging import exhibits
from autograder.judging.cluster import judge_all
from autograder.judging.judge import Judge
from autograder.judging.submission import Judged, judge_dossier, refused
from autograder.reading.dossier import Dossier, open_dossier
from autograder.reading.names import not_a_student, printable


def students_in(submitted: Path, week: str) -> list[str]:
    """Return the students who have a folder for this week in `submitted`, sorted by name."""
    return [name for name in _folders(submitted, week) if not_a_student(name) is None]


def strangers_in(submitted: Path, week: str) -> list[str]:
    """Return one sentence per folder that contains this week but cannot belong to a student."""
    reasons = {name: not_a_student(name) for name in _folders(submitted, week)}
    return [
        f"Folder {printable(name)!r} is not a student's: {reason}. Nothing in it was graded; rename it."
        for name, reason in reasons.items()
        if reason is not None
    ]


def _folders(submitted: Path, week: str) -> list[str]:
    if not Path(submitted).is_dir():
        raise ValueError(f"{submitted} is not a folder: pass the folder that contains STUDENT/{week}/{week}.ipynb")
    return sorted(path.name for path in Path(submitted).iterdir() if path.is_dir() and _may_hold(path / week))


def _may_hold(folder: Path) -> bool:
    try:
        return folder.exists()
    except OSError:  # no permission to look inside; reading it will report that
        return True


def grade(
    week: str,
    submitted: Path,
    *,
    root: Path = ROOT,
    students: Sequence[str] | None = None,
    seed: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    done: Callable[[SubmissionRecord], None] = lambda verdicts: None,
    then: Callable[[list[SubmissionRecord]], None] = lambda verdicts: None,
) -> list[SubmissionRecord]:
    """Judge the submissions of a week, several at a time, and write one verdict file each.

    `seed` reproduces the inputs of an earlier run; by default every run draws new ones. A run that was killed is
    resumed: submissions that it already judged, and that have not changed, are not judged again. `scheduler` is the
    address of a Dask cluster. `done` is called after each submission. `then` is called once with all verdicts, sorted
    by student, which are also returned: it publishes them, and the run counts as finished when it returns. Raises
    ValueError for an unknown week or folder, or while another run is writing.
    """
    week = notebooks.find_week(week, root)
    names = sorted(set(students)) if students is not None else students_in(submitted, week)
    with only_writer(root), run_of(week, names, seed, root, whole_class=students is None) as chosen:
        results: dict[str, SubmissionRecord] = {}

        def keep(verdicts: SubmissionRecord) -> None:
            results[verdicts["student"]] = verdicts
            done(verdicts)

        rest = []
        for dossier, failed in [_opened(name, week, submitted, root) for name in names]:
            if failed is not None:
                keep(_recorded(dossier, failed, chosen, root))
            elif (earlier := kept(dossier, chosen, root)) is not None:
                keep(earlier)
            else:
                rest.append(dossier)
        threads = max(1, min(workers or (os.cpu_count() or 1) + 1, len(rest)))  # one more, as one waits for the kernel
        for dossier, judged in judge_all(rest, chosen, workers=threads, scheduler=scheduler) if rest else ():
            keep(_recorded(dossier, judged, chosen, root))
        found = [results[name] for name in names]
        then(found)
    return found


def stale(week: str, submitted: Path, root: Path = ROOT) -> dict[str, str]:
    """Return the students of a week whose submission has no valid verdict, and why."""
    if not Path(submitted).is_dir():
        return {}
    unended = unended_run(week, root)
    reasons: dict[str, str] = {}
    for student in students_in(submitted, week):
        dossier, failed = _opened(student, week, submitted, root)
        if dossier.found:
            left = "a run ended before it was published" if student in unended else ""
            reasons[student] = "it cannot be read" if failed else why_stale(dossier, root) or left
    return {student: reason for student, reason in reasons.items() if reason}


def _opened(student: str, week: str, submitted: Path, root: Path) -> tuple[Dossier, Judged | None]:
    """Read a submission as data; a failure to read it becomes its verdict."""
    try:
        return open_dossier(student, week, submitted, root), None
    except Exception as error:
        nothing = _nothing_of(student, week)
        return nothing, refused(nothing, "read", error)


def _nothing_of(student: str, week: str) -> Dossier:
    return Dossier(student, week, {check.exercise: None for check in weeks.of_week(week)}, [], True)


def _recorded(dossier: Dossier, judged: Judged, seed: int, root: Path) -> SubmissionRecord:
    """Write the verdicts of a submission; a failure becomes its verdict. If the file cannot be written, that counts as
    a fault of the machine, so the points are not lost for good."""
    try:
        verdicts = verdicts_of(dossier, judged, seed)
        exhibits.write(judged.exhibits, exhibits.file_of(verdict_file(dossier.student, dossier.week, root)))
        write_verdicts(verdicts, root)
    except Exception as error:
        nothing = replace(_nothing_of(dossier.student, dossier.week), digest=dossier.digest)
        verdicts = verdicts_of(nothing, refused(nothing, "written down", error, fault=isinstance(error, OSError)), seed)
        with suppress(OSError):
            write_verdicts(verdicts, root)
    return verdicts


def grade_one(student: str, week: str, submitted: Path, judge: Judge, seed: int, root: Path = ROOT) -> SubmissionRecord:
    """Judge one submission with the caller's judge, and write nothing."""
    dossier = open_dossier(student, notebooks.find_week(week, root), submitted, root)
    return verdicts_of(dossier, judge_dossier(dossier, judge, seed), seed)


def verdicts_of(dossier: Dossier, judged: Judged, seed: int) -> SubmissionRecord:
    """Return the content of a verdict file: points, sentences, and everything needed to reproduce them."""
    content = {
        "student": dossier.student,
        "assignment": dossier.week,
        "submitted": dossier.found,
        "digest": dossier.digest,
        "seed": seed,
        "level": judged.level,
        "seconds": judged.seconds,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "checks": checks_hash(dossier.week),
        "notes": dossier.notes,
        "exercises": {
            verdict.exercise: {
                "points": verdict.points,
                "max": float(verdict.max),
                "optional": weeks.find(verdict.exercise).optional,
                "text": verdict.text,
                "fault": verdict.fault,
                "look": verdict.look,
            }
            for verdict in judged.verdicts
        },
    }
    return sealed(content)
