"""Code for `mine/`, as text: the statements that an answer needs, and modules submitted with a page. Runs no code."""

from __future__ import annotations

import ast
import builtins
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardlab.own.blocks import Block, signature_digest, unusable
from shardlab.own.names import PACKAGE
from shardlab.own.pieces import PIECES, Piece, home_of

from autograder.jobs.statements import PARSING, Statement
from autograder.reading.cell_text import NotPython, read

ALLOWED = {"torch", "numpy", "mine", *sys.stdlib_module_names} - {"__main__"}
CONSTANT_CALLS = {"partial", "compile", "set", "frozenset", "range", "tuple", "dict", "namedtuple", "TypeVar"}
MARKS = ("### BEGIN SOLUTION", "### END SOLUTION")


class NotExportable(ValueError):
    """An answer passes but cannot become part of `mine`; the message gives the reason and a fix."""


@dataclass(frozen=True)
class _Placed:
    """A statement with its source and the number of its cell."""

    statement: Statement
    source: str
    cell: int


def block_of(piece: Piece, cells: Sequence[str]) -> Block:
    """The block of a piece, extracted from a page's cells in the order they ran; a name's last definition counts.

    Raises NotExportable if one of the piece's names has no definition, or needs something other than an import, a
    function, a class or a constant.
    """
    placed = [one for one in _statements(cells) if not _is_from_itself(piece, one.statement)]
    last: dict[str, int] = {name: place for place, one in enumerate(placed) for name in one.statement.binds}
    for name in piece.names:
        if name not in last or not _defines(placed[last[name]].statement):
            raise NotExportable(f"no cell defines {name} with `def` or `class`: write it as a function of that name")
    _refuse_shadows(piece, placed, {placed[last[name]].cell for name in piece.names})
    due = _closure(piece, placed, last)
    imports = tuple(placed[place].source for place in due if placed[place].statement.is_import)
    parts = tuple(
        (min(placed[place].statement.binds), placed[place].source)
        for place in due
        if not placed[place].statement.is_import
    )
    block = Block(imports, parts)
    return Block(imports, parts, signature_digest(block, piece.names))


def _is_from_itself(piece: Piece, statement: Statement) -> bool:
    """Whether it imports from the module that the piece is written to, which already has the name."""
    return isinstance(statement.tree, ast.ImportFrom) and statement.tree.module == f"{PACKAGE}.{piece.module}"


def _statements(cells: Sequence[str]) -> Iterator[_Placed]:
    for number, source in enumerate(cells):
        try:
            code, found = read(source)
        except NotPython:
            continue
        lines = code.splitlines()
        for one in found:
            yield from (_Placed(part, text, number) for part, text in _one_name_each(one, lines))


def _one_name_each(statement: Statement, lines: Sequence[str]) -> Iterator[tuple[Statement, str]]:
    """Split `dist, relu = torch.distributed, torch.relu` into two assignments; leave other statements unchanged."""
    match statement.tree:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            for name, value in zip(names, values, strict=True):
                tree = ast.copy_location(ast.Assign([name], value), statement.tree)
                yield Statement(tree), ast.unparse(tree)
        case ast.Import() | ast.ImportFrom():
            yield statement, ast.unparse(statement.tree)
        case tree:
            first = min([tree.lineno, *(one.lineno for one in getattr(tree, "decorator_list", []))])
            own = lines[first - 1 : tree.end_lineno]
            yield statement, "\n".join(line.rstrip() for line in own if line.strip() not in MARKS)


def _defines(statement: Statement) -> bool:
    return statement.is_definition or isinstance(getattr(statement.tree, "value", None), ast.Lambda)


def _refuse_shadows(piece: Piece, placed: Sequence[_Placed], own_cells: set[int]) -> None:
    """Refuse an answer whose cell also defines a name that another exercise adds to the same module."""
    others = {name for exercise, names in PIECES[piece.module].items() if exercise != piece.exercise for name in names}
    for one in placed:
        if one.cell in own_cells and (twice := sorted(one.statement.binds & others - set(piece.names))):
            home = home_of(piece.module, twice[0])
            owner = home.exercise if home else "another exercise"
            raise NotExportable(f"its cell also defines {twice[0]}, which belongs to {owner}: rename it")


def _closure(piece: Piece, placed: Sequence[_Placed], last: dict[str, int]) -> list[int]:
    """Indices of the statements that the piece's names need, in the order of the cells."""
    due: set[int] = set()
    todo, asked = [(name, "") for name in reversed(piece.names)], set[str]()
    while todo:
        name, user = todo.pop()
        if name in asked:
            continue
        asked.add(name)
        home = home_of(piece.module, name)
        if home is not None and home.exercise != piece.exercise and home.week == piece.week:
            continue  # another block of the same module
        if name not in last:
            if not hasattr(builtins, name) and name != "__class__":
                raise NotExportable(f"{user} uses {name}, which no cell defines: define it, or pass it as an argument")
            continue
        one = placed[last[name]].statement
        _refuse(name, user, one)
        due.add(last[name])
        todo += [(read_name, name) for read_name in sorted(one.reads)]
    return sorted(due)


def _refuse(name: str, user: str, statement: Statement) -> None:
    """Raise NotExportable for a statement that does not work in a module outside the notebook."""
    tree = statement.tree
    if isinstance(tree, ast.Import | ast.ImportFrom):
        source = tree.module or "" if isinstance(tree, ast.ImportFrom) else tree.names[0].name
        root = "a relative import" if isinstance(tree, ast.ImportFrom) and tree.level else source.split(".")[0]
        if root not in ALLOWED:
            raise NotExportable(f"{user} uses {name} from {root}, which `mine` cannot use: write that part yourself")
    elif not (_defines(statement) or _is_constant(tree)):
        raise NotExportable(
            f"{user} reads {name}, a variable of the notebook: pass it as an argument, or write a constant"
        )


def _is_constant(tree: ast.stmt) -> bool:
    """Whether it is `NAME = value` and the value calls nothing but CONSTANT_CALLS."""
    if isinstance(tree, ast.Assign) and len(tree.targets) == 1 and isinstance(tree.targets[0], ast.Name):
        value: ast.expr | None = tree.value
    elif isinstance(tree, ast.AnnAssign) and isinstance(tree.target, ast.Name):
        value = tree.value
    else:
        return False
    calls = [one.func for one in ast.walk(value) if isinstance(one, ast.Call)] if value is not None else []
    return all(getattr(one, "attr", getattr(one, "id", "")) in CONSTANT_CALLS for one in calls)


MOST_LETTERS = 200_000  # in all modules; the course's have 40,000


def modules_in(cells: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], list[str]]:
    """({module: source}, notes) from the last cell that packed `mine`; a note says what was left out and why."""
    packed = [cell["packed"] for cell in cells if cell.get("packed")]
    if not packed:
        return {}, []
    try:
        found = json.loads(packed[-1]) if len(packed[-1]) <= 2 * MOST_LETTERS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        return {}, ["Your mine/ could not be read: run the cell that packs it again, then save and submit the page."]
    if sum(map(len, found.values())) > MOST_LETTERS:
        return {}, [f"Your mine/ was left out because it has more than {MOST_LETTERS:,} characters."]
    modules, notes = {}, []
    for name in PIECES:
        with PARSING:
            reason = unusable(found.get(name, ""))
        if reason:
            notes.append(f"Your mine/{name}.py was replaced by the course's version: {reason}.")
        elif name in found:
            modules[name] = found[name]
    return modules, notes
