"""Load a student's functions, from notebook cells or from a pickle that a notebook sent."""

from __future__ import annotations
import __future__

import ast
import builtins
import gc
import inspect
import linecache
import pickle
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from shardlab.own import finder

from autograder.jobs.statements import statements_of

MOST_SECONDS = 3.0  # for all statements together that the answer might not need
MOST_TOLD = 3  # statements that a verdict names
MOST_LETTERS = 400  # of the reason that a verdict gives for one statement
_FUTURES = __future__.annotations.compiler_flag  # the only flag that changes how Python 3.11 compiles code


class StudentError(Exception):
    """The cells do not define the requested functions; the message is shown to the student."""


def load(
    answer: dict[str, Any], names: Sequence[str], *, callables: bool, loading: Loading | None = None
) -> dict[str, Any]:
    """Return the student's definitions by name, from planned {"cells": [...]} or from {"pickle": bytes}.

    Raises StudentError for a missing name and, with `callables`, for one that is not a function.
    """
    space = _from_pickle(answer) if "pickle" in answer else run_cells(answer, names, loading or Loading())
    missing = [name for name in names if name not in space or (callables and not callable(space[name]))]
    if missing:
        shown = f"{missing[0]}()" if callables else missing[0]
        raise StudentError(f"{shown} is not defined: keep the name that the exercise gives it.")
    return {name: space[name] for name in names}


def _from_pickle(answer: dict[str, Any]) -> dict[str, Any]:
    finder.serve(answer.get("modules", {}))  # the course's `mine`: mistakes in earlier weeks cost nothing
    functions, sources = pickle.loads(answer["pickle"])  # in the sandbox, where student code is allowed to run
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return functions


@dataclass(frozen=True)
class ToRun:
    """A cell for a rank: its text, its Python code, and which of its statements to run.

    An error in a statement of `must` fails the answer. Other errors are ignored, but a verdict reports those in `told`.
    """

    name: str
    source: str
    code: str
    run: list[int]
    must: list[int]
    told: list[int]
    is_own: bool


class TooSlow(Exception):
    """A statement that the answer might not need took too long."""


class _NoNotebook:
    """The result of `get_ipython()`: there is no notebook, so magics do nothing."""

    def __getattr__(self, name: str) -> Callable[..., list]:
        return lambda *_, **__: []


class Loading:
    """Runs the cells of an answer in order in one module, as a kernel does, and records what could not be run.

    The module is `__main__`, and a cell's `from __future__ import …` applies to the cells below it.
    """

    def __init__(self) -> None:
        module = ModuleType("__main__")
        sys.modules["__main__"] = module
        self.space = module.__dict__
        self.space |= {"__builtins__": builtins, "get_ipython": _NoNotebook, "display": lambda *_, **__: None}
        self.not_run: list[str] = []
        self.passed_over: Exception | None = None
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self._seconds_left = MOST_SECONDS

    def run(self, cell: ToRun, space: dict[str, Any]) -> None:
        """Run the chosen statements of a cell; raises the error of a statement that the answer needs."""
        if not cell.run:
            return
        filename = f"<{cell.name}>"
        linecache.cache[filename] = (len(cell.source), None, cell.source.splitlines(keepends=True), filename)
        with _collections_paused():
            statements = statements_of(cell.code, filename)
        for number in cell.run:
            statement = statements[number]
            if number in cell.must or statement.is_definition or statement.is_import:
                limit = nullcontext()
            else:
                limit = self._at_most()
            try:
                with limit:
                    self._execute(statement.tree, filename, space)
            except Exception as error:
                if number in cell.must:
                    raise
                self._pass_over(cell, statement.tree.lineno, error, is_told=number in cell.told)

    def _execute(self, tree: ast.stmt, filename: str, space: dict[str, Any]) -> None:
        code = compile(ast.Module([tree], []), filename, "exec", self._flags, dont_inherit=True)
        self._flags |= code.co_flags & _FUTURES
        coroutine = eval(code, space)
        if code.co_flags & inspect.CO_COROUTINE:
            with suppress(StopIteration):
                while True:  # no event loop, because it would open sockets: nothing external can be awaited
                    coroutine.send(None)

    def _pass_over(self, cell: ToRun, line: int, error: Exception, *, is_told: bool) -> None:
        if cell.is_own:
            self.passed_over = self.passed_over or error
        if is_told and len(self.not_run) < MOST_TOLD:
            self.not_run.append(f"{cell.name}\n{line}\n{type(error).__name__}: {error}"[:MOST_LETTERS])

    @contextmanager
    def _at_most(self) -> Iterator[None]:
        """Interrupt a block that exceeds the time left for statements that the answer might not need."""

        def stop(*_: object) -> None:
            raise TooSlow(f"statements that the answer might not need took more than {MOST_SECONDS:g} s in total")

        began, before = time.monotonic(), signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, self._seconds_left))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            self._seconds_left -= time.monotonic() - began


def run_cells(answer: dict[str, Any], names: Collection[str], loading: Loading) -> dict[str, Any]:
    """Run the chosen statements of cells in one module, for `names`; then run the page's in a separate namespace.

    The answer's own cell is run completely, but errors in statements that the answer does not need are ignored there
    too. For example, `shardlab.run` cannot start ranks from a rank.
    """
    if answer["refused"]:
        raise StudentError(answer["refused"])
    finder.serve(answer.get("modules", {}), answer.get("own", {}))
    space = loading.space
    exec(compile(answer["preamble"], "<notebook>", "exec", dont_inherit=True), space)
    for cell in answer["cells"]:
        loading.run(ToRun(**cell), space)
    page = dict(space)  # a copy: later changes by a student's function do not affect the page's functions
    for cell in answer["page"]:
        loading.run(ToRun(**cell), page)
    found = space | {name: page[name] for name in answer["called"] if name in page}
    if loading.passed_over and not all(name in found for name in names):
        raise loading.passed_over
    return found


@contextmanager
def _collections_paused() -> Iterator[None]:
    """Pause garbage collection: a notebook's syntax trees are thousands of objects, and all of them are in use."""
    were_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if were_on:
            gc.enable()
