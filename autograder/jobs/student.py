"""Turn what a student wrote into functions that can be called: notebook cells, or functions pickled by a notebook."""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import linecache
import pickle
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


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
    """Hide modules from every import that follows; one that was imported is emptied, whoever still refers to it."""
    sys.meta_path.insert(0, Masked(names))
    for name in [m for m in sys.modules if any(m == n or m.startswith(n + ".") for n in names)]:
        sys.modules.pop(name).__dict__.clear()


def load(answer: dict[str, Any], names: Sequence[str], *, callables: bool) -> dict[str, Any]:
    """What the student defines, by name, from {"cells": [...]} or {"pickle": bytes}.

    StudentError says what is missing, or is no function where `callables` are wanted.
    """
    space = _from_pickle(answer["pickle"]) if "pickle" in answer else _from_cells(answer["preamble"], answer["cells"])
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


def _from_cells(preamble: str, cells: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Run cells (name, source, whether it is the exercise's own) in one module, as the notebook's namespace would.

    Of other cells only imports, definitions and assignments are run: their demonstrations are not part of the answer,
    and an error in them is not an error of this exercise.
    """
    module = ModuleType("notebook")
    sys.modules["notebook"] = module
    space = module.__dict__
    space["__builtins__"] = builtins
    _run_kindly(ast.parse(preamble), "<notebook>", space)
    for name, source, is_own in cells:
        filename = f"<{name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        try:
            tree = ast.parse(source, filename)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if is_own:
                line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
                raise StudentError(f"The cell is not Python{line}: {error.args[0] if error.args else error}.") from None
            continue
        if is_own:
            exec(compile(tree, filename, "exec"), space)
        else:
            tree.body = [node for node in tree.body if isinstance(node, _DEFINITIONS)]
            _run_kindly(tree, filename, space)
    return space


_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


def _run_kindly(tree: ast.Module, filename: str, space: dict[str, Any]) -> None:
    """Run statement by statement; one that fails is skipped, for its error belongs to another exercise."""
    for node in tree.body:
        try:
            exec(compile(ast.Module([node], []), filename, "exec"), space)
        except Exception:
            continue
