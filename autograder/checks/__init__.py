"""Every check of the course, by exercise. Three readers use them: the notebook, the grade, and the kill matrix."""

from __future__ import annotations

from autograder.checks import week00, week01, week02, week03, week04, week07, week08, week09, week10, week13
from autograder.checks.base import Check

WEEKS: dict[str, tuple[Check, ...]] = {
    "week00": week00.CHECKS,
    "week01": week01.CHECKS,
    "week02": week02.CHECKS,
    "week03": week03.CHECKS,
    "week04": week04.CHECKS,
    "week07": week07.CHECKS,
    "week08": week08.CHECKS,
    "week09": week09.CHECKS,
    "week10": week10.CHECKS,
    "week13": week13.CHECKS,
}


def of_week(week: str) -> tuple[Check, ...]:
    """The checks of a week, named `week01` or by its folder `week01_collectives`."""
    name = week.split("_", maxsplit=1)[0]
    if name not in WEEKS:
        raise ValueError(f"no checks for {week!r}: there are checks for {', '.join(WEEKS)}")
    return WEEKS[name]


def find(exercise: str) -> Check:
    """The check of one exercise, such as `week01.ring-all-reduce`."""
    everything = {check.exercise: check for checks in WEEKS.values() for check in checks}
    if exercise not in everything:
        raise ValueError(f"no exercise {exercise!r}: there are {', '.join(everything)}")
    return everything[exercise]
