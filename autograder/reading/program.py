"""Choose the statements of a notebook that a rank runs for an answer, as statement numbers per cell.

A kernel runs every cell from top to bottom. A rank runs only the statements that the answer needs and those that could
change it, in the same order, because demonstrations start ranks, draw figures, and take seconds. If a student has
changed a given cell, the page's copy runs first and then the changed statements. If the grader calls a function that
the page gives, it calls the page's own copy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from autograder.jobs.needed import Needs, PlacedStatement
from autograder.jobs.statements import Statement
from autograder.jobs.student import ToRun
from autograder.reading.cell_text import NotPython, read

MOST_LETTERS = 300_000  # characters of all of a student's cells
MOST_TOLD = 3  # statements that a verdict names
MOST_REASON = 200  # characters of the reason why a statement was not run
STUB = "NotImplementedError"


@dataclass(frozen=True)
class AnswerCell:
    """A cell of an answer: whether it holds the answer, whether the page gives it, and its released text."""

    name: str
    source: str
    is_answer: bool
    is_given: bool = False
    released: str = ""

    @property
    def is_extra(self) -> bool:
        """Whether a student has added it, or it is a changed cell of the page."""
        return " extra " in self.name


@dataclass(eq=False)
class Part:
    """A cell, or the given part of an exercise's cell, with its statements.

    `asked` are the page's statements that a student must write. `left_out` are not run at this position.
    """

    row: AnswerCell
    is_given: bool
    code: str = ""
    statements: Sequence[Statement] = ()
    left_out: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    trouble: str = ""

    @property
    def is_answer(self) -> bool:
        """Whether it is the student's text in the cell that is judged."""
        return self.row.is_answer and not self.is_given

    @property
    def name(self) -> str:
        """The file name of its code in tracebacks."""
        return f"{self.row.name} given" if self.is_given and not self.row.is_given else self.row.name


def planned(answer: dict[str, Any], names: Sequence[str], *, shows: bool = False) -> dict[str, Any]:
    """Prepare an answer for a rank: a pickle stays as it is; cells get the statements to run for `names`.

    `shows`: do not load the answer's own cell, because `exhibit` runs it and shows its output.
    """
    if "cells" not in answer:
        return answer
    modules = {key: answer[key] for key in ("modules", "own") if key in answer}
    return {"preamble": answer.get("preamble", ""), **modules, **_plan(_rows(answer), tuple(names), shows)}


def not_run(answer: dict[str, Any]) -> list[str]:
    """A sentence for each of the student's cells that cannot be run, with the reason."""
    parts = [part for part in _parts(_rows(answer)) if part.trouble and not part.is_answer]
    return [f"{named(part.row)} was not run: {part.trouble}." for part in parts]


def passed_over(answer: dict[str, Any], claims: Any) -> list[str]:
    """A sentence for each statement that a rank claims it could not run; claims are only displayed."""
    rows = {row.name: row for row in _rows(answer)} if "cells" in answer else {}
    texts = [one for one in claims if isinstance(one, str)] if isinstance(claims, list) else []
    split = [one.split("\n", 2) for one in texts[:MOST_TOLD] if one.count("\n") >= 2]
    return [
        f"{named(rows[name])}: line {line} could not be run. {error.strip()[:MOST_REASON]}"
        for name, line, error in split
        if name in rows and line.isdecimal() and len(line) < 6
    ]


def named(row: AnswerCell) -> str:
    """Name a cell for its author: by its exercise, or by its first line."""
    first = next(iter(row.source.strip().splitlines()), "")[:50]
    return f"Your cell that begins with `{first}`" if row.is_extra else f"The cell of {row.name.split('.')[-1]}"


def given_in(released: str) -> list[Statement]:
    """The statements that an exercise's cell already contains: functions, classes and computed values without stubs."""
    statements = read(released)[1] if released else ()
    return [one for one in statements if (one.is_definition or one.reads) and not has_stub(one)]


def has_stub(statement: Statement) -> bool:
    """Whether it contains a stub that a student must replace."""
    raised = [node.exc for node in ast.walk(statement.tree) if isinstance(node, ast.Raise)]
    return any(isinstance(one, ast.Call) and getattr(one.func, "id", "") == STUB for one in raised)


def _rows(answer: dict[str, Any]) -> tuple[AnswerCell, ...]:
    return tuple(AnswerCell(*cell) for cell in answer["cells"])


@lru_cache(maxsize=256)
def _plan(rows: tuple[AnswerCell, ...], names: tuple[str, ...], shows: bool) -> dict[str, Any]:
    parts = _parts(rows)
    (own,) = [part for part in parts if part.is_answer]
    called = set() if shows else set(names) & _bound(given_in(own.row.released))
    page = _page(parts, called)
    wanted = {*names, *(name for part, number in page for name in part.statements[number].reads)}
    if shows:
        wanted |= {name for one in own.statements for name in one.reads}
    loaded = [part for part in parts if not (shows and part is own)]
    places = _places(loaded)
    needs = Needs([PlacedStatement(part.statements[number], part.is_given) for part, number in places])
    due, touching = ({places[at] for at in found} for found in (needs.of(wanted), needs.touching(wanted)))
    return {
        "cells": [asdict(_to_run(part, due, touching)) for part in loaded],
        "page": [asdict(_chosen(part, [at for one, at in page if one is part])) for part in parts],
        "called": sorted(called),
        "refused": _refusal(own) if own.trouble and not shows else "",
        "shown": [own.name, own.row.source, own.code or own.row.source] if shows else [],
    }


def _to_run(part: Part, due: set[tuple[Part, int]], touching: set[tuple[Part, int]]) -> ToRun:
    """Run all of the answer's own cell; of others, what the answer needs plus a student's functions and classes."""
    run = [
        number
        for number, one in enumerate(part.statements)
        if (part, number) in touching or part.is_answer or one.holds_for_all or _is_cheap(part, one)
    ]
    must = [number for number in run if part.is_answer and (part, number) in due]
    told = [number for number in run if not part.is_given and (part, number) in touching]
    return _chosen(part, [number for number in run if number not in part.left_out], must, told)


def _is_cheap(part: Part, statement: Statement) -> bool:
    return statement.is_definition and not part.is_given


def _chosen(part: Part, run: list[int], must: Sequence[int] = (), told: Sequence[int] = ()) -> ToRun:
    source, code = (part.row.source, part.code) if run else ("", "")
    if run and part.is_given and not part.row.is_given:
        source = part.row.released
    return ToRun(part.name, source, code, run, list(must), list(told), part.is_answer)


def _page(parts: Sequence[Part], called: set[str]) -> list[tuple[Part, int]]:
    """The page's own statements that the called functions need, to run after all cells in a separate namespace.

    A class that the student has not changed is not defined again, so that existing objects remain its instances.
    """
    given = [(part, at) for part, at in _places(parts) if part.is_given and at not in part.asked] if called else []
    theirs = [part.statements[at] for part, at in _places(parts) if not part.is_given and at not in part.left_out]
    changed = _bound(theirs)
    needs = Needs([PlacedStatement(part.statements[number], True) for part, number in given])
    chosen = [given[at] for at in sorted(needs.of(called))] if called else []
    return [
        (part, at)
        for part, at in chosen
        if not isinstance(part.statements[at].tree, ast.ClassDef) or part.statements[at].binds & changed
    ]


def _places(parts: Sequence[Part]) -> list[tuple[Part, int]]:
    return [(part, number) for part in parts for number in range(len(part.statements))]


def _bound(statements: Iterable[Statement]) -> set[str]:
    return {name for one in statements for name in one.binds}


def _refusal(own: Part) -> str:
    return f"The cell cannot be run: {own.trouble}."


@lru_cache(maxsize=64)
def _parts(rows: tuple[AnswerCell, ...]) -> list[Part]:
    """The cells in order; before each exercise's cell comes the part that the page gives and the student removed."""
    parts, letters = [], 0
    for row in rows:
        theirs = _part(row, is_given=row.is_given)
        letters += 0 if row.is_given else len(row.source)
        if letters > MOST_LETTERS:
            theirs.statements, theirs.trouble = (), f"your cells have more than {MOST_LETTERS:,} characters in total"
        if row.is_extra:
            theirs.left_out = _unchanged(theirs.statements, read(row.released)[1] if row.released else ())
        elif row.released:
            parts.append(_given_part(row, theirs))
        parts.append(theirs)
    return parts


def _part(row: AnswerCell, *, is_given: bool) -> Part:
    try:
        code, statements = read(row.source)
    except NotPython as reason:
        return Part(row, is_given, trouble=str(reason))
    return Part(row, is_given, code, statements)


def _given_part(row: AnswerCell, theirs: Part) -> Part:
    code, statements = read(row.released)
    given, there = given_in(row.released), {one.shape for one in theirs.statements}
    asked = {at for at, one in enumerate(statements) if one not in given}
    again = {at for at, one in enumerate(statements) if one.shape in there}
    return Part(row, True, code, statements, asked | again, asked)


def _unchanged(statements: Sequence[Statement], released: Sequence[Statement]) -> set[int]:
    """The statements of a changed cell that are the page's and do not depend on a change."""
    ours = {one.shape for one in released}
    same, changed = set(), set()
    for number, one in enumerate(statements):
        if one.shape in ours and (one.is_import or not one.reads & changed):
            same.add(number)
        else:
            changed |= one.binds
    return same
