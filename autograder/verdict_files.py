"""The files of a grading run below autograder/verdicts/: one writer at a time, whole at any moment, taken up again.

STUDENT/WEEK.json   the verdicts of a submission
.run-WEEK.json      the seed of a run of the whole class that has not ended
"""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from autograder.course import ROOT
from autograder.dossier import Dossier
from autograder.hashes import checks_hash

Verdicts = dict[str, Any]


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
def run_of(week: str, seed: int | None, root: Path, *, whole_class: bool) -> Iterator[int]:
    """The seed of this run: the given one, or that of a run of the whole class that did not end, or a new one.

    A run of some students takes part in the class's run, and leaves it to be ended by the whole class.
    """
    mark = folder_of(root) / f".run-{week}.json"
    chosen = seed if seed is not None else _seed_in(mark)
    if chosen is None:
        chosen = secrets.randbits(32)
    if whole_class:
        mark.write_text(json.dumps({"seed": chosen}))
    yield chosen
    if whole_class:
        mark.unlink()


def _seed_in(mark: Path) -> int | None:
    try:
        return int(json.loads(mark.read_text())["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def kept(dossier: Dossier, seed: int, root: Path) -> Verdicts | None:
    """The verdicts of an interrupted run, if they are of these answers, inputs and versions, and no machine failed."""
    try:
        wanted = {"digest": dossier.digest, "seed": seed, "versions": versions(), "checks": checks_hash(dossier.week)}
        verdicts = json.loads(verdict_file(dossier.student, dossier.week, root).read_text(encoding="utf-8"))
        same = all(verdicts[name] == value for name, value in wanted.items())
        failed = any(one["fault"] for one in verdicts["exercises"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # there is none, or it is of an older release
    return verdicts if same and not failed else None


def write_verdicts(verdicts: Verdicts, root: Path = ROOT) -> Path:
    """Write a verdict file so that a kill leaves the old one or the new one, never half of one."""
    path = verdict_file(verdicts["student"], verdicts["assignment"], root)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(verdicts, indent=1, ensure_ascii=False), encoding="utf-8")
    draft.replace(path)
    return path


def read_class(week: str, root: Path) -> list[Verdicts]:
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
