"""Discovers every check of the course from its folders: `weekNN_topic/exercise.py` holds the CHECK of one exercise.

The pages before and after the weeks are `prerequisites` and `electiveN_topic`.

A file whose name begins with `_` is shared by the checks of its week. Notebooks, grading, and the kill matrix use the
checks.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from shardlab.meant import instead
from shardlab.study.page import KINDS

from autograder.checks.base import Check

HERE = Path(__file__).parent
FOLDERS = {path.name.split("_")[0]: path for kind in KINDS for path in sorted(HERE.glob(f"{kind}*")) if path.is_dir()}


def _checks_in(folder: Path) -> tuple[Check, ...]:
    modules = [import_module(f"{__name__}.{folder.name}.{path.stem}") for path in sorted(folder.glob("[!_]*.py"))]
    for module in modules:
        if not isinstance(getattr(module, "CHECK", None), Check):
            raise ImportError(f"{module.__file__} has no CHECK: add one, or rename the file so that it begins with _")
    return tuple(module.CHECK for module in modules)


WEEKS: dict[str, tuple[Check, ...]] = {name: _checks_in(folder) for name, folder in FOLDERS.items()}


def of_week(week: str) -> tuple[Check, ...]:
    """Return the checks of a week, given as `week01` or `week01_collectives`. Raises ValueError for an unknown week."""
    name = week.split("_", maxsplit=1)[0]
    if name not in WEEKS:
        raise ValueError(f"no checks for {week!r}: {instead(week, WEEKS)}")
    return WEEKS[name]


def find(exercise: str) -> Check:
    """Return the check of an exercise such as `week01.ring-all-reduce`. Raises ValueError for an unknown exercise."""
    everything = {check.exercise: check for checks in WEEKS.values() for check in checks}
    if exercise not in everything:
        raise ValueError(f"no exercise {exercise!r}: {instead(exercise, everything)}")
    return everything[exercise]
