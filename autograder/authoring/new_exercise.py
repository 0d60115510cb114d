"""Create a new exercise or week: page cells, a check, known answers and a test. All of it passes as generated.

The result is a small working exercise; its author then edits the page, the check and the known answers.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT

TEMPLATES = Path(__file__).parents[1] / "templates" / "new"
EXERCISE = re.compile(r"(prerequisites|week\d\d|elective\d)\.([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
WEEK = re.compile(r"week(\d\d)_[a-z][a-z0-9_]*")
FIRST = "ring-rounds"  # the first exercise of a new week


def add_exercise(exercise: str, points: float = 2, root: Path = ROOT) -> list[Path]:
    """Add an exercise, such as week01.ring-rounds, to its week; return the files to edit, the page first.

    Raises ValueError for a malformed name, a name that is taken, or a week that does not exist.
    """
    match = EXERCISE.fullmatch(exercise)
    if match is None:
        raise ValueError(f"{exercise!r} is not an exercise: write weekNN.some-name, in lowercase letters and digits")
    week = notebooks.find_week(match[1], root)
    return _lay_out(exercise, week, points, root)


def add_week(week: str, root: Path = ROOT) -> list[Path]:
    """Create a week, such as week17_own_topic, with one exercise; return the files to edit, the page first.

    Raises ValueError for a malformed name, or a number that is taken.
    """
    match = WEEK.fullmatch(week)
    if match is None:
        raise ValueError(f"{week!r} is not a week: write weekNN_topic, in lowercase letters, digits and underscores")
    taken = [name for name in notebooks.weeks(root) if name.startswith(f"week{match[1]}_")]
    if taken:
        raise ValueError(f"week {match[1]} already exists: {taken[0]}")
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
        raise ValueError(f"solutions/{week} does not exist: use a copy of the course that has solutions/")
    words = {"exercise": exercise, "function": module, "points": f"{points:g}", "title": _title(name)}
    page = root / "solutions" / week / f"{week}.py"
    check = root / "autograder" / "weeks" / week / f"{module}.py"
    known = root / "solutions" / week / "known" / f"{module}.py"
    if check.exists() or f'"{exercise}"' in page.read_text(encoding="utf-8"):
        raise ValueError(f"{exercise} already exists: choose another name")
    _write(check, "check", words)
    _write(known, "known", words)
    with page.open("a", encoding="utf-8") as file:
        file.write(_filled("cells", words))
    return [page, check, known]


def _write(path: Path, template: str, words: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_filled(template, words), encoding="utf-8")


def _filled(template: str, words: dict[str, str]) -> str:
    return Template((TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).substitute(words)


def _title(name: str) -> str:
    return name.replace("-", " ").replace("_", " ").capitalize()
