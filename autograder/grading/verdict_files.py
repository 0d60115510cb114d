"""The files of a grading run below autograder/verdicts/: one writer at a time, whole at any moment, taken up again.

STUDENT/WEEK.json   the verdicts of a submission
.run-WEEK.json      the seed of a run that has not ended, and the students who are still to be judged or published
"""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from autograder.authoring.course import ROOT
from autograder.grading.hashes import checks_hash
from autograder.reading.dossier import Dossier
from autograder.sandboxes.zygote import OFFICIAL

SubmissionRecord = dict[str, Any]


def versions() -> dict[str, str]:
    """The versions that a verdict rests on."""
    return {name: metadata.version(name) for name in ("sys602", "torch", "nbgrader")}


def folder_of(root: Path) -> Path:
    """Where the verdicts of a course lie."""
    return Path(root) / "autograder" / "verdicts"


def verdict_file(student: str, week: str, root: Path) -> Path:
    """The verdict file of a submission."""
    return folder_of(root) / student / f"{week}.json"


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Hold the verdicts of a course for this process; the lock goes with the process, however it ends."""
    folder = folder_of(root)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another run writes to {folder}: wait until it has ended, or end it") from None
        yield


@contextmanager
def run_of(week: str, students: Iterable[str], seed: int | None, root: Path, *, whole_class: bool) -> Iterator[int]:
    """The seed of this run: the given one, or that of a run that did not end, or a new one.

    A run of some students takes part in a run that did not end, and leaves the other students of it to be judged.
    """
    mark, mine = folder_of(root) / f".run-{week}.json", set(students)
    before, left = _unended(mark)
    chosen = next(one for one in (seed, before, secrets.randbits(32)) if one is not None)
    _write(mark, {"seed": chosen, "left": sorted(left | mine)})
    yield chosen
    rest = set() if whole_class else left - mine
    if rest:
        _write(mark, {"seed": chosen, "left": sorted(rest)})
    else:
        mark.unlink()


def unended_run(week: str, root: Path) -> set[str]:
    """The students of a run that was killed before they were judged and published."""
    return _unended(folder_of(root) / f".run-{week}.json")[1]


def _unended(mark: Path) -> tuple[int | None, set[str]]:
    try:
        run = json.loads(mark.read_text(encoding="utf-8"))
        return int(run["seed"]), set(map(str, run.get("left", ())))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, set()


def kept(dossier: Dossier, seed: int, root: Path) -> SubmissionRecord | None:
    """The verdicts of an interrupted run, if they are of these answers, inputs and versions, and no machine failed."""
    try:
        wanted = {"digest": dossier.digest, "seed": seed, "versions": versions(), "checks": checks_hash(dossier.week)}
        verdicts = json.loads(verdict_file(dossier.student, dossier.week, root).read_text(encoding="utf-8"))
        same = all(verdicts[name] == value for name, value in wanted.items()) and verdicts["level"] >= OFFICIAL
        failed = any(one["fault"] for one in verdicts["exercises"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # there is none, or it is of an older release
    return verdicts if same and not failed else None


@dataclass(frozen=True)
class Standing:
    """The exercises of a verdict that holds for a submission as it is now, or the reason why none does."""

    exercises: dict[str, Any]
    reason: str = ""


def standing(student: str, week: str, digest: str, root: Path) -> Standing:
    """The verdict on exactly these answers (`Dossier.digest`); an older one, or another student's, never counts."""
    try:
        verdicts = json.loads(verdict_file(student, week, root).read_text(encoding="utf-8"))
        named, exercises = (verdicts["student"], verdicts["assignment"]), verdicts["exercises"]
        judged, isolation = verdicts.get("digest"), verdicts.get("level", 0)
    except FileNotFoundError:
        return Standing({}, "this submission has not been judged yet")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Standing({}, "the verdict file cannot be read")
    if named != (student, week) or not isinstance(exercises, dict):
        return Standing({}, "the verdict file is not of this student and week")
    if not digest or judged != digest:
        return Standing({}, "the submission has changed since it was judged")
    if not isinstance(isolation, int) or isolation < OFFICIAL:
        return Standing({}, "it was judged on a machine that does not isolate submissions")
    return Standing(exercises)


def why_stale(dossier: Dossier, root: Path) -> str:
    """Why a submission is to be graded again, as a sentence's end; empty when its verdict holds."""
    found = standing(dossier.student, dossier.week, dossier.digest, root)
    failed = any(isinstance(one, dict) and one.get("fault") for one in found.exercises.values())
    return found.reason or ("the machine failed while it was judged" if failed else "")


def write_verdicts(verdicts: SubmissionRecord, root: Path = ROOT) -> Path:
    """Write a verdict file so that a kill leaves the old one or the new one, never half of one."""
    path = verdict_file(verdicts["student"], verdicts["assignment"], root)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, verdicts)
    return path


def _write(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    draft.replace(path)


def read_class(week: str, root: Path) -> list[SubmissionRecord]:
    """Every verdict file of a week, by student; a file that cannot be read is left out."""
    found = []
    for path in sorted(folder_of(root).glob(f"*/{week}.json")):
        try:
            verdicts = json.loads(path.read_text(encoding="utf-8"))
            fits = verdicts["student"] == path.parent.name and isinstance(verdicts["exercises"], dict)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found += [verdicts] if fits else []
    return found


def graded_weeks(root: Path) -> list[str]:
    """The weeks that have verdicts of anybody, in order. `WEEK.exhibits.json`, beside a verdict, is not a week."""
    return sorted({path.stem for path in folder_of(root).glob("*/*.json") if "." not in path.stem})
