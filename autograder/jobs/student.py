"""Turn what a student wrote into functions that can be called: notebook cells, or functions pickled by a notebook."""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import importlib.abc
import importlib.machinery
import linecache
import pickle
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from types import ModuleType
from typing import Any

from autograder.jobs.needed import Needs


class StudentError(Exception):
    """The cells could not be turned into the functions asked for; the text is for the student."""


class Masked(importlib.abc.MetaPathFinder):
    """Refuse the modules that implement what an exercise asks for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """None lets the next finder look; a masked module is refused with the reason."""
        if any(fullname == name or fullname.startswith(name + ".") for name in self._names):
            raise ImportError(f"{fullname} is not there while this exercise is checked: it holds the answer")
        return None


def mask(names: Sequence[str]) -> None:
    """Hide modules of shardlab from every import that follows, in this process and in those that it forks.

    One that was imported is emptied, whoever still refers to it.
    """
    sys.meta_path.insert(0, Masked(names))
    known, num_modules = loaded()
    later = list(islice(reversed(sys.modules), max(0, len(sys.modules) - num_modules)))
    for name in [m for m in (*known, *later) if any(m == n or m.startswith(n + ".") for n in names)]:
        sys.modules.pop(name).__dict__.clear()


@functools.cache
def loaded() -> tuple[list[str], int]:
    """The modules of shardlab that were imported when this was first asked, and how many modules there were in all.

    Asked before the fork: who walks through sys.modules counts a reference to each name, and so copies a thousand pages
    that it shared, a quarter of all that a rank copies.
    """
    return [name for name in sys.modules if name.split(".")[0] == "shardlab"], len(sys.modules)


def load(answer: dict[str, Any], names: Sequence[str], *, callables: bool) -> dict[str, Any]:
    """What the student defines, by name, from {"cells": [...]} or {"pickle": bytes}.

    StudentError says what is missing, or is not a function where `callables` are wanted.
    """
    space = _from_pickle(answer["pickle"]) if "pickle" in answer else run_cells(answer, names)
    missing = [name for name in names if name not in space or (callables and not callable(space[name]))]
    if missing:
        shown = f"{missing[0]}()" if callables else missing[0]
        raise StudentError(f"{shown} is not defined: keep the name that the exercise gives it.")
    return {name: space[name] for name in names}


def _from_pickle(data: bytes) -> dict[str, Any]:
    functions, sources = pickle.loads(data)  # in the sandbox, where its author's code runs anyway
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return functions


@dataclass(frozen=True)
class Statement:
    """A statement at the top of a cell, and whether the cell is the exercise's own, or the page's."""

    tree: ast.stmt
    filename: str
    is_own: bool
    is_given: bool

    @property
    def defines(self) -> bool:
        """Whether it is a student's import, function or class, which are cheap."""
        return not self.is_given and isinstance(self.tree, _DEFINITIONS)

    def run(self, space: dict[str, Any]) -> None:
        """Execute it in the notebook's namespace."""
        exec(compile(ast.Module([self.tree], []), self.filename, "exec"), space)


def run_cells(answer: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Run cells (name, source, whether it is the exercise's own, whether the page gives it) in one module, for `names`.

    Of other cells, what the answer needs is run, and a student's imports, functions and classes: their demonstrations
    are not part of it, and an error in them is not an error of this exercise. The own cell is run whole; there too an
    error is passed over where the answer does not need the statement: `shardlab.run` starts no ranks from a rank.
    """
    module = ModuleType("notebook")
    sys.modules["notebook"] = module
    space = module.__dict__
    space["__builtins__"] = builtins
    exec(compile(answer.get("preamble", ""), "<notebook>", "exec"), space)
    with _collections_paused():
        statements = [statement for cell in answer["cells"] for statement in _statements(*cell)]
        needs = Needs([statement.tree for statement in statements])
        due = needs.of(names)
        own = [needs.reads(place) for place, statement in enumerate(statements) if statement.is_own]
        helpful = due | needs.of(set().union(*own))
    passed_over = None
    for place, statement in enumerate(statements):
        try:
            if statement.is_own or place in helpful or statement.defines:
                statement.run(space)
        except Exception as error:
            if statement.is_own and place in due:
                raise
            passed_over = passed_over or (error if statement.is_own else None)
    if passed_over and not all(name in space for name in names):
        raise passed_over
    return space


@contextmanager
def _collections_paused() -> Iterator[None]:
    """No garbage collection meanwhile: the trees of a notebook are thousands of objects at once, all of them needed."""
    were_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if were_on:
            gc.enable()


_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _statements(name: str, source: str, is_own: bool, is_given: bool = False) -> list[Statement]:
    """The statements of a cell; another cell that is not Python has none."""
    filename = f"<{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        tree = parse(source, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if not is_own:
            return []
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise StudentError(f"The cell is not Python{line}: {error.args[0] if error.args else error}.") from None
    return [Statement(part, filename, is_own, is_given) for node in tree.body for part in _parts(node)]


def _parts(node: ast.stmt) -> list[ast.stmt]:
    """An import of several names as imports of one: one that is masked, or not needed, leaves the others alone."""
    if isinstance(node, ast.Import):
        return [ast.copy_location(ast.Import([alias]), node) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node) for alias in node.names]
    return [node]


def parse(source: str, filename: str) -> ast.Module:
    """Parse a cell; where that fails, without the lines that only a notebook understands, such as `%matplotlib`."""
    try:
        return ast.parse(source, filename)
    except SyntaxError:
        plain = _MAGIC.sub(r"\1pass", source)
        if plain == source:
            raise
        return ast.parse(plain, filename)


_MAGIC = re.compile(r"^([ \t]*)[%!].*$", re.MULTILINE)
