"""The files of a grading run in autograder/verdicts/: one writer at a time, atomic writes, and runs can be resumed.

STUDENT/WEEK.json   the verdicts of a submission
.run-WEEK.json      the seed of an unfinished run, and the students who are still to be judged or published
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
    """Return the versions of the packages that determine a verdict."""
    return {name: metadata.version(name) for name in ("sys602", "torch", "nbgrader")}


def folder_of(root: Path) -> Path:
    """Return where the verdicts of a course are stored."""
    return Path(root) / "autograder" / "verdicts"


def verdict_file(student: str, week: str, root: Path) -> Path:
    """Return the verdict file of a submission."""
    return folder_of(root) / student / f"{week}.json"


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Lock the verdicts of a course for this process; the lock is released when the process ends, however it ends."""
    folder = folder_of(root)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another run writes to {folder}: wait until it has finished, or stop it") from None
        yield


@contextmanager
def run_of(week: str, students: Iterable[str], seed: int | None, root: Path, *, whole_class: bool) -> Iterator[int]:
    """Yield the seed of this run: the given one, that of an unfinished run, or a new one.

    A run of some students joins an unfinished run, and leaves its other students to be judged later.
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
    """Return the students of a killed run who were not yet judged and published."""
    return _unended(folder_of(root) / f".run-{week}.json")[1]


def _unended(mark: Path) -> tuple[int | None, set[str]]:
    try:
        run = json.loads(mark.read_text(encoding="utf-8"))
        return int(run["seed"]), set(map(str, run.get("left", ())))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, set()


def kept(dossier: Dossier, seed: int, root: Path) -> SubmissionRecord | None:
    """Return the verdicts of an interrupted run if answers, inputs and versions match and the machine did not fail."""
    try:
        wanted = {"digest": dossier.digest, "seed": seed, "versions": versions(), "checks": checks_hash(dossier.week)}
        verdicts = json.loads(verdict_file(dossier.student, dossier.week, root).read_text(encoding="utf-8"))
        same = all(verdicts[name] == value for name, value in wanted.items()) and verdicts["level"] >= OFFICIAL
        failed = any(one["fault"] for one in verdicts["exercises"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # missing, or from an older release
    return verdicts if same and not failed else None


@dataclass(frozen=True)
class Standing:
    """The exercises of a verdict that is valid for the current submission, or the reason why none is."""

    exercises: dict[str, Any]
    reason: str = ""


def standing(student: str, week: str, digest: str, root: Path) -> Standing:
    """Return the verdict on exactly these answers (`Dossier.digest`), never an older one or another student's."""
    try:
        verdicts = json.loads(verdict_file(student, week, root).read_text(encoding="utf-8"))
        named, exercises = (verdicts["student"], verdicts["assignment"]), verdicts["exercises"]
        judged, isolation = verdicts.get("digest"), verdicts.get("level", 0)
    except FileNotFoundError:
        return Standing({}, "this submission has not been judged yet")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Standing({}, "the verdict file cannot be read")
    if named != (student, week) or not isinstance(exercises, dict):
        return Standing({}, "the verdict file belongs to another student or week")
    if not digest or judged != digest:
        return Standing({}, "the submission has changed since it was judged")
    if not isinstance(isolation, int) or isolation < OFFICIAL:
        return Standing({}, "it was judged on a machine that does not isolate submissions")
    return Standing(exercises)


def why_stale(dossier: Dossier, root: Path) -> str:
    """Return why a submission must be graded again, as the end of a sentence; empty when its verdict is valid."""
    found = standing(dossier.student, dossier.week, dossier.digest, root)
    failed = any(isinstance(one, dict) and one.get("fault") for one in found.exercises.values())
    return found.reason or ("the machine failed while it was judged" if failed else "")


def write_verdicts(verdicts: SubmissionRecord, root: Path = ROOT) -> Path:
    """Write a verdict file atomically: a kill leaves either the old version or the new one."""
    path = verdict_file(verdicts["student"], verdicts["assignment"], root)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, verdicts)
    return path


def _write(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    draft.replace(path)


def total(verdicts: SubmissionRecord) -> tuple[float, float]:
    """Return a submission's points, and the most that its core exercises give; optional points come on top."""
    exercises = verdicts["exercises"].values()
    most = sum(float(one["max"]) for one in exercises if not one.get("optional"))
    return round(sum(float(one["points"]) for one in exercises), 4), most


def read_class(week: str, root: Path) -> list[SubmissionRecord]:
    """Return every verdict of a week, sorted by student; skip files that cannot be read."""
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
    """Return the weeks that have verdicts, in order. `WEEK.exhibits.json`, stored next to a verdict, is not a week."""
    return sorted({path.stem for path in folder_of(root).glob("*/*.json") if "." not in path.stem})
