"""Load a module of `mine`: the course's functions, overridden by the learner's, and a line naming the missing ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from shardlab.own.blocks import MARK, Blocks, course_digest, module_source, unpacked, unusable
from shardlab.own.names import PACKAGE
from shardlab.own.pieces import GIVEN, PIECES, Piece, pieces
from shardlab.study.where import around, packed_answers


def spec(module: str, served: Mapping[str, tuple[str, str]] | None) -> ModuleSpec | None:
    """The spec of `mine` or one of its modules. `served`: the only modules in a sandbox; None outside of one."""
    folder = None if served is not None else own_folder()
    name = f"{PACKAGE}.{module}" if module else PACKAGE
    if not module:
        found = ModuleSpec(name, _Nothing(), is_package=True)
        found.submodule_search_locations = [str(folder)] if folder else []
        return found
    if served is not None:
        return ModuleSpec(name, _Served(*served[module]), origin=name) if module in served else None
    path = folder / f"{module}.py" if folder else None
    if module not in PIECES and module not in GIVEN and not (path and path.is_file()):
        return None
    return ModuleSpec(name, _Own(module, path), origin=str(path) if path and path.is_file() else name)


def own_folder() -> Path | None:
    """The path of the learner's `mine/`, which may not exist yet; None outside of a learner's folder."""
    found = around(Path.cwd())
    return found / PACKAGE if found else None


class _Nothing(Loader):
    """Loader of the package itself; importing it runs no code."""

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Served(Loader):
    """In a sandbox: run the course's source, then the student's; if that fails, keep the course's names."""

    def __init__(self, source: str, own: str) -> None:
        self._source, self._own = source, own

    def exec_module(self, module: ModuleType) -> None:
        space, name = module.__dict__, f"<{module.__name__}>"
        run(self._source, space, name)
        before = dict(space)
        if self._own and _run(self._own, space, name):
            space.clear()
            space.update(before)


class _Own(Loader):
    """Load one module: the course's names, overridden by those in the learner's file."""

    def __init__(self, module: str, path: Path | None) -> None:
        self._module, self._path = module, path if path and path.is_file() else None

    def exec_module(self, module: ModuleType) -> None:
        course = course_names(self._module)
        space = module.__dict__
        if self._module in GIVEN and self._path is None:
            run(course_source(self._module), space, f"<mine.{self._module}>")
        space.update(course)
        text, trouble = _text(self._path), ""
        if text is not None:
            before = dict(space)
            trouble = unusable(text) or _run(text, space, str(self._path))
            if trouble:
                space.clear()
                space.update(before)
            else:
                space["__file__"] = str(self._path)
                _put_back_stale(text, self._module, space, course)
        origin = {name: "the course's" if space.get(name) is course.get(name) else "yours" for name in course}
        space["__origin__"] = origin
        space["__getattr__"] = _missing(self._module)
        if self._module in PIECES and sys.stdout is not None and "RANK" not in os.environ:
            _say(self._module, [name for name in names_of(self._module) if origin.get(name) != "yours"], trouble)


def names_of(module: str) -> list[str]:
    """The names that exercises add to a module."""
    return [name for names in PIECES.get(module, {}).values() for name in names]


def course_names(module: str) -> dict[str, Any]:
    """The course's functions of a module by name; empty if the course came without its answers."""
    if module in GIVEN:
        return {}
    source = course_source(module)
    if not source:
        return {}
    space: dict[str, Any] = {"__name__": f"{PACKAGE}.{module}"}
    run(source, space, f"<the course's {module}>")
    return {name: space[name] for name in names_of(module) if name in space}


def course_source(module: str) -> str:
    """The course's version of a module; "" if there is none."""
    if module in GIVEN:
        here = Path(__file__).resolve().parent
        path = here / "given" / f"{module}.py"
        return (path if path.is_file() else here.parent / "model" / path.name).read_text(encoding="utf-8")
    blocks = {name: one for name, one in _course().items() if name in PIECES.get(module, {})}
    return module_source(module, blocks) if blocks else ""


def _course() -> Blocks:
    path = packed_answers()
    try:
        return unpacked(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError):
        return {}


def run(source: str, space: dict[str, Any], filename: str) -> None:
    """Run a module's source in `space`; tracebacks show its lines."""
    import linecache

    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec", dont_inherit=True), space)


def _run(text: str, space: dict[str, Any], path: str) -> str:
    try:
        run(text, space, path)
    except Exception as error:
        return f"it cannot be imported ({type(error).__name__}: {error})"
    return ""


def _text(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        return f"{error}"  # not valid Python, so the module is replaced with a message


def _put_back_stale(text: str, module: str, space: dict[str, Any], course: Mapping[str, Any]) -> None:
    """Use the course's function if the exercise's parameters have changed since the learner wrote theirs."""
    written = dict(MARK.findall(text))
    blocks = _course()
    for piece in _pieces_in(module):
        now = course_digest(piece, blocks)
        if written.get(piece.exercise, now) not in (now, "000000"):
            space.update({name: course[name] for name in piece.names if name in course})


def _pieces_in(module: str) -> Iterable[Piece]:
    return (one for one in pieces() if one.module == module)


def _missing(module: str) -> Any:
    """`__getattr__` of a module: its error says which exercise adds the missing name."""

    def get(name: str) -> Any:
        piece = next((one for one in _pieces_in(module) if name in one.names), None)
        if piece is None:
            raise AttributeError(f"module 'mine.{module}' has no attribute {name!r}")
        raise AttributeError(
            f"mine.{module} has no {name} yet, and this copy of the course came without its answers: "
            f"{piece.exercise} adds it once its check passes"
        )

    return get


def _say(module: str, missing: list[str], trouble: str) -> None:
    if own_folder() is None:
        return
    if trouble:
        print(f"mine/{module}.py was replaced by the course's version: {trouble}.")
    elif missing:
        due = dict.fromkeys(piece.exercise for piece in _pieces_in(module) if set(piece.names) & set(missing))
        print(f"mine.{module}: using the course's {', '.join(missing)} until you pass {', '.join(due)}.")
