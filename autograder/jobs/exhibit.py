"""Run a manually graded code cell and report the pictures that it shows; the supervisor captures its prints."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from typing import Any

from shardlab.ranks.inside import Part

from autograder.jobs import call, plain, student
from autograder.jobs.seat import Seal, Seat
from autograder.jobs.statements import parsed


def on_stage(seat: Seat, seal: Seal) -> list[Part]:
    """Run the student's other cells silently, only for their definitions; then the cell itself, as in a notebook."""
    os.environ["MPLBACKEND"] = "module://autograder.jobs.canvas"
    with _Silence():  # matplotlib may print messages about fonts
        from autograder.jobs import canvas
    seal()
    name, source, code = seat.answer["shown"]
    error = None
    try:
        tree = parsed(code, f"<{name}>")
        with _Silence():
            space = student.run_cells(seat.answer, (), student.Loading())
        call.loaded()
        _run(tree, f"<{name}>", source, space)
    except BaseException as problem:
        error = call.told(problem)
    try:
        canvas.flush()
    except BaseException as problem:
        error = error or call.told(problem)
    return plain.parts({"error": error, **canvas.shown})


def _run(tree: ast.Module, filename: str, source: str, space: dict[str, Any]) -> None:
    """Execute a cell and display the value of its last line."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    space["display"] = _display
    exec(compile(tree, filename, "exec", dont_inherit=True), space)
    if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
        _display(eval(compile(ast.Expression(last.value), filename, "eval", dont_inherit=True), space))
    elif isinstance(last, ast.Expr):
        exec(compile(ast.Module([last], []), filename, "exec", dont_inherit=True), space)


def _display(*things: Any) -> None:
    """Collect pictures, and print the `repr` of everything else; no HTML."""
    from autograder.jobs import canvas

    for thing in things:
        if thing is not None and not canvas.add(thing):
            print(repr(thing))


class _Silence:
    """Discards prints, including those of programs that are started."""

    def __enter__(self) -> None:
        sys.stdout.flush()
        self._kept = [os.dup(descriptor) for descriptor in (1, 2)]
        null = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(null, descriptor)
        os.close(null)

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        for descriptor, kept in zip((1, 2), self._kept, strict=True):
            os.dup2(kept, descriptor)
            os.close(kept)
