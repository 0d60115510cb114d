"""Judge a submission again with the same inputs as its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.integrity.audit import read_verdicts
from autograder.judging import submission
from autograder.judging.judge import Judge
from autograder.reading.dossier import open_dossier


@dataclass(frozen=True)
class Change:
    """The points of one exercise in the verdict and now; None if it has none."""

    exercise: str
    was: float | None
    now: float | None
    text: str
    fault: bool = False

    @property
    def is_same(self) -> bool:
        """Whether the exercise got the same points again."""
        return self.was == self.now


@dataclass(frozen=True)
class Replay:
    """All exercises of a submission, judged again, and sentences about what has changed."""

    changes: list[Change]
    notes: list[str]

    @property
    def is_same(self) -> bool:
        """Whether every exercise got the same points again."""
        return all(change.is_same for change in self.changes)


def replay(student: str, week: str, submitted: Path, judge: Judge, root: Path = ROOT) -> Replay:
    """Judge the current submission with the recorded seed; nothing is written.

    Raises ValueError when there is no verdict or no submission.
    """
    week = notebooks.find_week(week, root)
    _, verdicts = read_verdicts(student, week, root)
    dossier = open_dossier(student, week, submitted, root)
    if not dossier.found:
        raise ValueError(f"{student} has no submission of {week} in {submitted}: {dossier.notes[0]}")
    judged = submission.judge_dossier(dossier, judge, int(verdicts["seed"]))
    notes = []
    if dossier.digest != verdicts.get("digest"):
        notes.append("The submission on disk has changed since it was graded.")
    if judged.level != verdicts.get("level"):
        notes.append(f"It was graded at level {verdicts.get('level')} and is now judged at level {judged.level}.")
    before, after = verdicts["exercises"], {one.exercise: one for one in judged.verdicts}
    changes = [
        Change(
            exercise,
            before[exercise]["points"] if exercise in before else None,
            after[exercise].points if exercise in after else None,
            after[exercise].text if exercise in after else "This exercise no longer has a check.",
            after[exercise].fault if exercise in after else False,
        )
        for exercise in {**before, **after}
    ]
    return Replay(changes, notes)
