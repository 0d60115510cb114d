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


class Needs:
    """The statements of a notebook, with what each binds and reads: walked through once, however often it is asked.

    Every rank of a job asks twice, and a page has fifty statements.
    """

    def __init__(self, statements: Sequence[ast.stmt]) -> None:
        self._statements = statements
        self._reads: dict[int, set[str]] = {}
        self._binders: dict[str, set[int]] = defaultdict(set)
        assigned: set[str] = set()
        for place, statement in enumerate(statements):
            bound = binds(statement)
            for name in bound:
                self._binders[name].add(place)
            if isinstance(statement, _ASSIGNMENTS):
                assigned |= bound
        for place, statement in enumerate(statements):
            if (name := _calls_method_of(statement)) in assigned:
                self._binders[name].add(place)

    def of(self, names: Iterable[str]) -> set[int]:
        """The places of the statements that bind or change these names, or names that those statements use in turn.

        Order plays no part: a function may use what is assigned below it. `values.append(1)` changes an assigned
        `values`.
        """
        found: set[int] = set()
        todo, asked = {EVERYTHING, *names}, set()
        while todo:
            asked.add(name := todo.pop())
            new = self._binders.get(name, set()) - found
            found |= new
            todo |= set().union(*map(self.reads, new)) - asked
        return found

    def reads(self, place: int) -> set[str]:
        """What `reads` says of the statement at this place."""
        if place not in self._reads:
            self._reads[place] = reads(self._statements[place])
        return self._reads[place]


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
            for field in node._fields:  # ast.iter_child_nodes takes twice as long
                value = getattr(node, field, None)
                if isinstance(value, list):
                    rest += [one for one in value if isinstance(one, ast.AST)]
                elif isinstance(value, ast.AST):
                    rest.append(value)
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
