"""Which statements of a notebook an answer needs: those that bind a name which it uses, directly or through others."""

from __future__ import annotations

import ast
import dis
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType

EVERYTHING = "*"  # what `from module import *` binds
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign)
_LOOKUPS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}


def needed(statements: Sequence[ast.stmt], names: Iterable[str]) -> set[int]:
    """The places of the statements that bind or change these names, or names that those statements use in turn.

    Order plays no part: a function may use what is assigned below it. `values.append(1)` changes an assigned `values`.
    """
    binders: dict[str, set[int]] = defaultdict(set)
    for place, statement in enumerate(statements):
        for name in binds(statement):
            binders[name].add(place)
    assigned = {name for statement in statements if isinstance(statement, _ASSIGNMENTS) for name in binds(statement)}
    for place, statement in enumerate(statements):
        if (name := _calls_method_of(statement)) in assigned:
            binders[name].add(place)

    found: set[int] = set()
    todo = {EVERYTHING, *names}
    while todo:
        new = binders.pop(todo.pop(), set()) - found
        found |= new
        todo = todo.union(*(reads(statements[place]) for place in new))
    return found


def binds(statement: ast.stmt) -> set[str]:
    """The names that a statement binds or changes in the notebook; `table[1] = 2` changes `table`."""
    names: set[str] = set()
    rest: list[ast.AST] = [statement]
    while rest:
        node = rest.pop()
        if isinstance(node, _SCOPES):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        else:
            if isinstance(getattr(node, "ctx", None), ast.Store):
                names.add(_base(node))
            rest += ast.iter_child_nodes(node)
    return names - {""}


def reads(statement: ast.stmt) -> set[str]:
    """The names that a statement looks up in the notebook, at once or when a function that it defines is called."""
    try:
        return set(_looked_up(compile(ast.Module([statement], []), "<names>", "exec")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()  # it cannot be run either


def _looked_up(code: CodeType) -> Iterator[str]:
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in _LOOKUPS)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _looked_up(constant)


def _calls_method_of(statement: ast.stmt) -> str:
    """`values` in the statement `values.append(1)`, otherwise nothing."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
            return _base(method)
    return ""


def _base(node: ast.AST) -> str:
    """`table` in `table.rows[1]`, nothing where no name stands at the front."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
