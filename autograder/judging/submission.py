"""Judge one submission: all its exercises, and the code cells that the instructor grades."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from autograder import weeks
from autograder.checks.base import Check
from autograder.judging import exhibits
from autograder.judging.judge import Judge, Verdict, clean, seed_for
from autograder.reading.answers import note_of
from autograder.reading.dossier import Dossier
from autograder.reading.names import printable
from autograder.reading.program import not_run
from autograder.reading.stand_ins import imports_mine
from autograder.sandboxes.zygote import OFFICIAL, level

NOT_ANSWERED = "There is no cell for this exercise: was it deleted?"
TOLD = " This has been flagged for your instructor."


@dataclass(frozen=True)
class Judged:
    """The verdicts of one dossier, the isolation level, and the output of cells that the instructor grades."""

    verdicts: list[Verdict]
    level: int
    seconds: float
    exhibits: dict[str, exhibits.Exhibit] = field(default_factory=dict)


def refused(dossier: Dossier, stage: str, error: BaseException, *, fault: bool = False) -> Judged:
    """The verdicts of a submission that could not be read, judged or saved, although others could."""
    told = clean(f"Not graded: your submission could not be {stage} ({_said(error)}).{TOLD}")
    found = [weeks.find(exercise) for exercise in dossier.answers]
    verdicts = [Verdict(one.exercise, 0.0, one.points, told, fault=fault, look=not fault) for one in found]
    return Judged(verdicts, max(level(), OFFICIAL), 0.0)  # none of it has run, so no isolation was missing


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {printable(str(error))[:300]}"


def judge_dossier(dossier: Dossier, judge: Judge, seed: int) -> Judged:
    """Judge every exercise of one submission, and run the code cells that the instructor grades."""
    began = time.monotonic()
    judge.end_submission()  # the previous one, however it ended
    verdicts = []
    for exercise, answer in dossier.answers.items():
        check = weeks.find(exercise)
        if answer is None:
            unread = not any(dossier.answers.values())
            reason = dossier.notes[0] if unread and dossier.notes else NOT_ANSWERED
            verdicts.append(Verdict(check.exercise, 0.0, check.points, reason))
        else:
            verdicts.append(_judged(judge, check, answer, seed_for(seed, dossier.student)))
    shown = {name: exhibits.show(judge, answer) for name, answer in dossier.exhibits.items()}
    return Judged(verdicts, level(), round(time.monotonic() - began, 3), shown)


def _judged(judge: Judge, check: Check, answer: dict, seed: int) -> Verdict:
    """The verdict on one answer; an answer on which the judge fails gets 0 points and is flagged for the instructor."""
    try:
        verdict = _with_stand_ins(judge, check, answer, seed)
    except Exception as error:
        text = clean(f"Not graded: your answer could not be judged ({_said(error)}).")
        verdict = Verdict(check.exercise, 0.0, check.points, text, look=True)
    told = TOLD if verdict.fault or verdict.look else ""
    notes = [note_of(check.exercise, answer), *([] if verdict.is_right else not_run(answer))]
    return replace(verdict, text=clean("\n".join(filter(None, [verdict.text + told, *notes]))))


def _with_stand_ins(judge: Judge, check: Check, answer: dict, seed: int) -> Verdict:
    """The verdict with the student's own `mine/`, or with the course's modules if the student's cost points.

    So a mistake in an earlier exercise costs nothing here. The verdict names the module that was replaced.
    """
    verdict, own = judge.judge(check, answer, seed), answer.get("own", {})
    if verdict.is_right or not own or not imports_mine(answer):
        return verdict
    without = judge.judge(check, answer | {"own": {}}, seed)
    if without.points <= verdict.points:
        return verdict
    used = [name for name in own if any(f"mine.{name}" in cell[1] for cell in answer["cells"])] or list(own)
    why = verdict.text.split("\nHint")[0]  # the exercise itself is right
    for name in used:
        others = {other: text for other, text in own.items() if other != name}
        if (found := judge.judge(check, answer | {"own": others}, seed)).points >= without.points:
            return replace(found, text=f"{found.text}\nThe course's mine/{name}.py was used, because with yours: {why}")
    return replace(without, text=f"{without.text}\nThe course's mine/ was used, because with yours: {why}")
