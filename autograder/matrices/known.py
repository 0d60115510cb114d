"""Known answers of every exercise: honest ones, which must live, and wrong ones, which must die.

`solutions/weekNN_topic/known/exercise/*.py` are whole answers: `right_*.py` are honest, the others wrong. In
`known/exercise.toml` each table is a wrong answer that is another one with one change:

    [sends_whole_tensors]
    story = "every rank sends all it has"
    of = "right_in_order"
    old = "piece = pieces[(rank - step) % size]"
    new = "piece = tensor"

`old` and `new` are lists where a change needs several places. A wrong answer that passes the visible check says why it
may: `not_in_sight = "…"`, in a file a docstring line `Not in sight: …`.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.course import ROOT

NOT_IN_SIGHT = "Not in sight: "
NEEDED = {"story", "of", "old", "new"}


@dataclass(frozen=True)
class Known:
    """One known answer: its source, what it does in a line, and why the visible check may miss it, if it may."""

    exercise: str
    name: str
    story: str
    source: str
    reason: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it is honest and must live."""
        return self.name.startswith("right_")


def answers_of(exercise: str, root: Path = ROOT) -> list[Known]:
    """Every known answer of an exercise, by name; none where the course was given out without its solutions.

    Raises ValueError for a change that does not apply exactly once.
    """
    week, name = exercise.split(".")
    folders = [folder / name.replace("-", "_") for folder in (root / "solutions").glob(f"{week}_*/known")]
    found = {one.name: one for folder in folders for one in _whole(exercise, folder)}
    for folder in folders:
        for one in _changed(folder.with_suffix(".toml"), exercise, dict(found)):
            if one.name in found:
                raise ValueError(f"{folder}.toml: [{one.name}] is also a file: give it another name")
            found[one.name] = one
    return [found[key] for key in sorted(found)]


def find(exercise: str, name: str) -> Known:
    """One known answer. Raises ValueError where there is none of that name."""
    for one in answers_of(exercise):
        if one.name == name:
            return one
    raise ValueError(f"no known answer {name!r} of {exercise}")


def right_of(exercise: str) -> Known:
    """An honest answer. Raises ValueError where none is known."""
    for one in answers_of(exercise):
        if one.is_right:
            return one
    raise ValueError(f"no right answer of {exercise} is known: add right_….py")


def _whole(exercise: str, folder: Path) -> Iterator[Known]:
    for path in sorted(folder.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        told = (ast.get_docstring(ast.parse(source)) or path.stem).splitlines()
        reasons = [line.removeprefix(NOT_IN_SIGHT) for line in told if line.startswith(NOT_IN_SIGHT)]
        yield Known(exercise, path.stem, told[0], source, "".join(reasons))


def _changed(path: Path, exercise: str, whole: dict[str, Known]) -> Iterator[Known]:
    for name, table in _tables(path).items():
        try:
            source = _apply(table, whole)
        except ValueError as error:
            raise ValueError(f"{path}: [{name}] {error}") from None
        story = f"{'Different' if name.startswith('right_') else 'Wrong'}: {table['story']}"
        yield Known(exercise, name, story, f'"""{story}"""\n\n{source}', table.get("not_in_sight", ""))


def _tables(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of a TOML file; none where there is no file. Raises ValueError that names a broken one."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from None


def _apply(table: dict[str, Any], whole: dict[str, Known]) -> str:
    """The code of the answer that a table names, changed. Raises ValueError where that cannot be done."""
    if missing := sorted(NEEDED - set(table)):
        raise ValueError(f"lacks {', '.join(missing)}")
    if unknown := sorted(set(table) - NEEDED - {"not_in_sight"}):
        raise ValueError(f"has {', '.join(unknown)}: write {', '.join(sorted(NEEDED))}, and not_in_sight if it is so")
    if table["of"] not in whole:
        raise ValueError(f"changes {table['of']!r}, and there is no such file: use one of {', '.join(whole)}")
    code = _without_docstring(whole[table["of"]].source)
    places, texts = _listed(table["old"]), _listed(table["new"])
    if len(places) != len(texts):
        raise ValueError(f"changes {len(places)} places, and {len(texts)} texts are given for them")
    for old, new in zip(places, texts, strict=True):
        if code.count(old) != 1:
            raise ValueError(f"changes text that occurs {code.count(old)} times in {table['of']}: {old!r}")
        code = code.replace(old, new)
    return code


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _without_docstring(source: str) -> str:
    first = ast.parse(source).body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return "".join(source.splitlines(keepends=True)[first.end_lineno if is_text else 0 :]).lstrip("\n")
