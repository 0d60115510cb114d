"""Grade the submissions of a week: read as data, judge in the sandbox, write verdicts.

One process writes. It can be killed at any moment: every verdict file is whole, and the next run goes on where this
one ended, with the same inputs.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from autograder import checks, exhibits, notebooks
from autograder.answers import note_of
from autograder.course import ROOT
from autograder.dossier import Dossier, open_dossier
from autograder.integrity.hashes import checks_hash, sealed
from autograder.judge import Judge, Verdict, seed_for
from autograder.sandbox import level

NOT_ANSWERED = "There is no cell for this exercise: was it deleted?"
Verdicts = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """The verdicts of one dossier, where they were reached, and what the instructor's own cells show."""

    verdicts: list[Verdict]
    level: int
    seconds: float
    exhibits: dict[str, exhibits.Exhibit] = field(default_factory=dict)


def students_in(submitted: Path, week: str) -> list[str]:
    """The students who have a folder for this week below `submitted`, by name."""
    if not Path(submitted).is_dir():
        raise ValueError(f"{submitted} is not a folder: give the folder that holds STUDENT/{week}/{week}.ipynb")
    return sorted(path.name for path in Path(submitted).iterdir() if path.is_dir() and (path / week).exists())


def grade(
    week: str,
    submitted: Path,
    *,
    root: Path = ROOT,
    students: Sequence[str] | None = None,
    seed: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    done: Callable[[Verdicts], None] = lambda verdicts: None,
) -> list[Verdicts]:
    """Judge the submissions of a week, several at a time, and write one verdict file each. Nothing is published yet.

    `seed` draws the inputs of a regrade again; by default every run draws new ones. A run that was killed is taken up
    again: submissions that it has judged, and that have not changed, are not judged twice. `scheduler` names a Dask
    cluster. `done` is called after each. Returns the verdicts by student. Raises ValueError for an unknown week or
    folder, or while another run writes.
    """
    from autograder.cluster import judge_all

    week = notebooks.find_week(week, root)
    names = sorted(students) if students is not None else students_in(submitted, week)
    with _only_writer(root), _run(week, seed, root) as chosen:
        dossiers = [open_dossier(name, week, submitted, root) for name in names]
        results = {one.student: kept for one in dossiers if (kept := _kept(one, chosen, root)) is not None}
        for verdicts in results.values():
            done(verdicts)
        rest = [one for one in dossiers if one.student not in results]
        threads = max(1, min(workers or (os.cpu_count() or 1) + 1, len(rest)))  # one waits for the kernel at a time
        for dossier, judged in judge_all(rest, chosen, workers=threads, scheduler=scheduler) if rest else ():
            results[dossier.student] = verdicts_of(dossier, judged, chosen)
            exhibits.write(judged.exhibits, exhibits.file_of(_verdict_file(dossier.student, week, root)))
            write_verdicts(results[dossier.student], root)
            done(results[dossier.student])
    return [results[name] for name in names]


def judge_dossier(dossier: Dossier, judge: Judge, seed: int) -> Judged:
    """Judge every exercise of one submission, and run the code cells that the instructor grades."""
    began = time.monotonic()
    judge.end_submission()  # the one before, however it ended
    verdicts = []
    for check in checks.of_week(dossier.week):
        answer = dossier.answers[check.exercise]
        if answer is None:
            unread = not any(dossier.answers.values())
            reason = dossier.notes[0] if unread and dossier.notes else NOT_ANSWERED
            verdicts.append(Verdict(check.exercise, 0.0, check.points, reason))
        else:
            verdict = judge.judge(check, answer, seed_for(seed, dossier.student))
            text = "\n".join(filter(None, [verdict.text, note_of(check.exercise, answer)]))
            verdicts.append(replace(verdict, text=text))
    shown = {name: exhibits.show(judge, answer) for name, answer in dossier.exhibits.items()}
    return Judged(verdicts, level(), round(time.monotonic() - began, 3), shown)


def grade_one(student: str, week: str, submitted: Path, judge: Judge, seed: int, root: Path = ROOT) -> Verdicts:
    """Judge one submission with a judge of the caller's, and write nothing."""
    dossier = open_dossier(student, notebooks.find_week(week, root), submitted, root)
    return verdicts_of(dossier, judge_dossier(dossier, judge, seed), seed)


def verdicts_of(dossier: Dossier, judged: Judged, seed: int) -> Verdicts:
    """The content of a verdict file: points and sentences, and all that is needed to reach them again."""
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
                "text": verdict.text,
                "fault": verdict.fault,
            }
            for verdict in judged.verdicts
        },
    }
    return sealed(content)


def versions() -> dict[str, str]:
    """The versions that a verdict rests on."""
    return {name: metadata.version(name) for name in ("sys602", "torch", "nbgrader")}


@contextmanager
def _only_writer(root: Path) -> Iterator[None]:
    """Hold the verdicts of a course for this process; the lock goes with the process, however it ends."""
    folder = Path(root) / "autograder" / "verdicts"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another run writes to {folder}: wait until it has ended, or end it") from None
        yield


@contextmanager
def _run(week: str, seed: int | None, root: Path) -> Iterator[int]:
    """The seed of this run: the given one, or that of a run of this week that did not end, or a new one."""
    mark = Path(root) / "autograder" / "verdicts" / f".run-{week}.json"
    if seed is None:
        chosen = int(json.loads(mark.read_text())["seed"]) if mark.exists() else secrets.randbits(32)
    else:
        chosen = seed
    mark.write_text(json.dumps({"seed": chosen}))
    yield chosen
    mark.unlink()


def _kept(dossier: Dossier, seed: int, root: Path) -> Verdicts | None:
    """The verdicts of an interrupted run, if they are of these answers, inputs and versions, and no machine failed."""
    wanted = {"digest": dossier.digest, "seed": seed, "versions": versions(), "checks": checks_hash(dossier.week)}
    try:
        verdicts = json.loads(_verdict_file(dossier.student, dossier.week, root).read_text())
        same = all(verdicts[name] == value for name, value in wanted.items())
        failed = any(one["fault"] for one in verdicts["exercises"].values())
    except (OSError, ValueError, KeyError, TypeError):
        return None  # there is none, or it is of an older release
    return verdicts if same and not failed else None


def _verdict_file(student: str, week: str, root: Path) -> Path:
    return Path(root) / "autograder" / "verdicts" / student / f"{week}.json"


def write_verdicts(verdicts: Verdicts, root: Path = ROOT) -> Path:
    """Write a verdict file so that a kill leaves the old one or the new one, never half of one."""
    path = _verdict_file(verdicts["student"], verdicts["assignment"], root)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(verdicts, indent=1, ensure_ascii=False))
    draft.replace(path)
    return path


def summary(verdicts: Sequence[Verdicts]) -> list[dict[str, Any]]:
    """What `--json` writes: per student, per exercise: points, max, text."""
    return [
        {
            "student": one["student"],
            "points": sum(exercise["points"] for exercise in one["exercises"].values()),
            "max": sum(exercise["max"] for exercise in one["exercises"].values()),
            "exercises": {
                name: {key: exercise[key] for key in ("points", "max", "text")}
                for name, exercise in one["exercises"].items()
            },
        }
        for one in verdicts
    ]


def write_csv(verdicts: Sequence[Verdicts], path: Path) -> None:
    """One line a student, one column an exercise, points only; manual cells are in nbgrader's own export."""
    names = list(verdicts[0]["exercises"]) if verdicts else []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["student", *names, "points", "max"])
        for row in summary(verdicts):
            points = [row["exercises"][name]["points"] for name in names]
            writer.writerow([row["student"], *points, row["points"], row["max"]])
