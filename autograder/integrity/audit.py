"""Show everything that determined a verdict, and what has changed since."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.grading import grade
from autograder.grading.hashes import checks_hash, file_hash, is_sealed
from autograder.grading.verdict_files import SubmissionRecord, total
from autograder.reading.dossier import open_dossier
from autograder.reading.ingest import read_collected
from autograder.sandboxes.zygote import LEVELS


@dataclass(frozen=True)
class Fact:
    """One fact about a verdict: its recorded value, its value now (None if it has none), and what is wrong."""

    name: str
    recorded: str
    now: str | None = None
    problem: str = ""


def read_verdicts(student: str, week: str, root: Path = ROOT) -> tuple[Path, SubmissionRecord]:
    """Read a student's verdict file; return its path and content. Raises ValueError if it is missing or broken."""
    path = Path(root) / "autograder" / "verdicts" / student / f"{week}.json"
    try:
        verdicts = json.loads(path.read_text(encoding="utf-8"))
        wanted = {"student": student, "assignment": week}
        fits = all(verdicts[key] == value for key, value in wanted.items()) and isinstance(verdicts["exercises"], dict)
        int(verdicts["seed"])
    except FileNotFoundError:
        raise ValueError(f"{student} has no verdict for {week}: {path} does not exist") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a readable verdict file ({error}): grade {student} again") from None
    if not fits:
        raise ValueError(f"{path} is the verdict of another student or week: grade {student} again")
    return path, verdicts


def audit(student: str, week: str, submitted: Path, root: Path = ROOT) -> list[Fact]:
    """Return everything that determined a student's verdict. Raises ValueError when there is no verdict."""
    week = notebooks.find_week(week, root)
    path, verdicts = read_verdicts(student, week, root)
    points, most = total(verdicts)
    level = verdicts.get("level", 0)
    edited = "" if is_sealed(verdicts) else "The verdict file was edited after it was written."
    return [
        Fact("points", f"{points:g} of {most:g}"),
        Fact("graded at", f"{verdicts.get('time', '?')}, in {verdicts.get('seconds', '?')} s"),
        Fact("seed of the inputs", str(verdicts["seed"])),
        Fact("isolation", f"level {level}: {LEVELS.get(level, 'unknown')}"),
        *_versions(verdicts),
        *_submission(verdicts, student, week, submitted, root),
        _compared(
            "checks",
            verdicts.get("checks", ""),
            checks_hash(week),
            "The checks or the judge have changed since: grading again may give different points.",
        ),
        Fact("verdict file", file_hash(path), file_hash(path), edited),
    ]


def _versions(verdicts: dict[str, Any]) -> list[Fact]:
    now = grade.versions()
    was = verdicts.get("versions", {})
    return [_compared(name, was.get(name, ""), now[name], f"{name} was {was.get(name)}.") for name in now]


def _submission(verdicts: dict[str, Any], student: str, week: str, submitted: Path, root: Path) -> list[Fact]:
    """Return facts about the answers as the judge reads them, the file on disk, and where it came from."""
    folder = Path(submitted) / student / week
    dossier = open_dossier(student, week, submitted, root)
    now = dossier.digest if dossier.found else ""
    changed = "The submission on disk has changed since it was graded." if now else "There is no submission on disk."
    if verdicts.get("submitted") is False:
        changed = "Nothing had been submitted when it was graded, but now there is a submission." if now else ""
        return [Fact("answers", "not submitted", now, changed)]
    facts = [_compared("answers", verdicts.get("digest", ""), now, changed)]
    collected, file = read_collected(folder), file_hash(folder / f"{week}.ipynb")
    if collected is None:
        return [*facts, Fact("submitted file", "", file)]
    edited = "The file has changed since it was collected."
    came = Fact("collected from", f"{collected['lms']}: {collected['file']}{' (LATE)' if collected['late'] else ''}")
    return [*facts, _compared("submitted file", collected["sha256"], file, edited), came]


def _compared(name: str, recorded: str, now: str, problem: str) -> Fact:
    return Fact(name, recorded, now, "" if recorded == now else problem)
