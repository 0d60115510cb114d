"""Read the recipes of a class: data from each submission, produced in the sandbox, as in grading."""

from __future__ import annotations

from pathlib import Path
from random import Random

from shardlab.hybrid.race import RaceEntry, from_dict

from autograder import weeks
from autograder.authoring.course import ROOT
from autograder.checks.formulas import value_of
from autograder.judging.judge import Judge
from autograder.reading.dossier import open_dossier
from autograder.weeks.week15_capstone_build.recipe import CHECK, LOSS, _over_cap, _wrong_loss, laps_of

EXERCISE, WEEK = CHECK.exercise, "week15_capstone_build"


def recipe_of(student: str, submitted: Path, judge: Judge, root: Path = ROOT) -> RaceEntry:
    """Return a student's submitted recipe. Raises ValueError with the reason if it cannot race."""
    answer = open_dossier(student, WEEK, submitted, root).answers.get(EXERCISE)
    if answer is None:
        raise ValueError("no answer")
    check = weeks.find(EXERCISE)
    reply = judge.ask(check.job(check.make({"part": LOSS, "seed": 0}, Random(0)), answer))
    given = value_of(reply)
    if not isinstance(given, dict):
        raise ValueError("the recipe is not a dict")
    return from_dict({str(name): value for name, value in given.items()})


def problem_of(recipe: RaceEntry, seed: int) -> str | None:
    """Return why a recipe is not on the board; the same reasons cost it its points."""
    laps = laps_of(recipe, seed)
    if isinstance(laps, str):
        return laps
    return _wrong_loss(recipe, laps, seed) or _over_cap(laps)
