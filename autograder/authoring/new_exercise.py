"""Lay out a new exercise, or a new week: a page's cells, a check, known answers and a test, which all pass as they are.

What is made is a small exercise that works; its author changes the page, the check and the known answers.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT

TEMPLATES = Path(__file__).parents[1] / "templates" / "new"
EXERCISE = re.compile(r"(week\d\d)\.([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
WEEK = re.compile(r"week(\d\d)_[a-z][a-z0-9_]*")
FIRST = "ring-rounds"  # the exercise that a new week begins with


def add_exercise(exercise: str, points: float = 2, root: Path = ROOT) -> list[Path]:
    """Add an exercise, such as week01.ring-rounds, to its week; returns the files to edit, the page first.

    Raises ValueError for a malformed or taken name, or a week that is not there.
    """
    match = EXERCISE.fullmatch(exercise)
    if match is None:
        raise ValueError(f"{exercise!r} names no exercise: write weekNN.some-name, in small letters and digits")
    week = notebooks.find_week(match[1], root)
    return _lay_out(exercise, week, points, root)


def add_week(week: str, root: Path = ROOT) -> list[Path]:
    """Begin a week, such as week17_own_topic, with one exercise; returns the files to edit, the page first.

    Raises ValueError for a malformed name, or a number that is taken.
    """
    match = WEEK.fullmatch(week)
    if match is None:
        raise ValueError(f"{week!r} names no week: write weekNN_topic, in small letters, digits and underscores")
    taken = [name for name in notebooks.weeks(root) if name.startswith(f"week{match[1]}_")]
    if taken:
        raise ValueError(f"week {match[1]} is there already: {taken[0]}")
    module = FIRST.replace("-", "_")
    words = {"number": str(int(match[1])), "title": _title(week.split("_", 1)[1]), "folder": week, "module": module}
    _write(root / "solutions" / week / f"{week}.py", "page", words)
    _write(root / "solutions" / week / f"test_{week}.py", "test", words)
    docstring = root / "autograder" / "weeks" / week / "__init__.py"
    docstring.parent.mkdir(parents=True, exist_ok=True)
    docstring.write_text(f'"""Week {words["number"]}: {words["title"].lower()}; one file per exercise."""\n')
    return _lay_out(f"week{match[1]}.{FIRST}", week, 2, root)


def _lay_out(exercise: str, week: str, points: float, root: Path) -> list[Path]:
    name = exercise.split(".")[1]
    module = name.replace("-", "_")
    if not (root / "solutions" / week).is_dir():
        raise ValueError(f"there is no solutions/{week} here: add exercises where the course has its solutions")
    words = {"exercise": exercise, "function": module, "points": f"{points:g}", "title": _title(name)}
    page = root / "solutions" / week / f"{week}.py"
    check = root / "autograder" / "weeks" / week / f"{module}.py"
    known = root / "solutions" / week / "known"
    if check.exists() or f'"{exercise}"' in page.read_text(encoding="utf-8"):
        raise ValueError(f"{exercise} is there already: choose another name")
    _write(check, "check", words)
    for right in ("right_by_rounds", "right_in_one_line"):
        _write(known / module / f"{right}.py", right, words)
    _write(known / f"{module}.toml", "wrong", words)
    with page.open("a", encoding="utf-8") as file:
        file.write(_filled("cells", words))
    return [page, check, known / f"{module}.toml"]


def _write(path: Path, template: str, words: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_filled(template, words), encoding="utf-8")


def _filled(template: str, words: dict[str, str]) -> str:
    return Template((TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).substitute(words)


def _title(name: str) -> str:
    return name.replace("-", " ").replace("_", " ").capitalize()
