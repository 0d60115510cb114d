"""Split a cell's code into statements, with the names that each binds and looks up. Nothing here runs or compiles code.

The grader uses it to read a student's cells, and a rank uses it to find the statements that the grader has chosen.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # raised by parsing untrusted text
PARSING = Lock()  # Python 3.11 counts the tree depth of all threads together, and raises SystemError
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_RUNS_ITS_CODE = {"time", "prun", "capture"}  # magics whose code a notebook runs once, in its own namespace


@dataclass(frozen=True, eq=False)
class Statement:
    """A top-level statement of a cell; an import of several names is split into one import per name."""

    tree: ast.stmt

    @cached_property
    def binds(self) -> frozenset[str]:
        """The names that it binds or changes in the notebook; `table[1] = 2` changes `table`."""
        return frozenset(_bound(self.tree))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The names that it looks up in the notebook, immediately or when a function that it defines is called."""
        return frozenset(_looked_up(self.tree))

    @cached_property
    def reads_at_once(self) -> frozenset[str]:
        """The names that it looks up when it runs: for a definition, those in its decorators, bases and defaults."""
        if not isinstance(self.tree, DEFINITIONS):
            return self.reads
        return frozenset(_of_all(one for one in _children(self.tree) if one not in self.tree.body)) - {""}

    @cached_property
    def declares(self) -> frozenset[str]:
        """The notebook's names that its functions assign when they are called: `global total`."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Global)]
        return frozenset(name for node in nodes for name in node.names)

    @cached_property
    def shape(self) -> str:
        """Its syntax tree as text, independent of comments, spaces and line numbers."""
        return ast.dump(self.tree)

    @property
    def is_definition(self) -> bool:
        """Whether it defines a function or a class, which is fast unless decorators are slow."""
        return isinstance(self.tree, DEFINITIONS)

    @property
    def is_function(self) -> bool:
        """Whether it defines a function."""
        return isinstance(self.tree, FUNCTIONS)

    @property
    def is_import(self) -> bool:
        """Whether it imports a name."""
        return isinstance(self.tree, IMPORTS)

    @property
    def holds_for_all(self) -> bool:
        """Whether it is `from __future__ import …`, which changes how all code below it is compiled."""
        return isinstance(self.tree, ast.ImportFrom) and self.tree.module == "__future__"

    @property
    def calls_method_of(self) -> str:
        """`values` for the statement `values.append(1)`; an empty string for other statements."""
        match self.tree:
            case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
                return _base(method)
        return ""


def statements_of(code: str, filename: str = "<cell>") -> tuple[Statement, ...]:
    """The statements of a cell that has been converted to Python. Raises one of NOT_PYTHON for other text."""
    return tuple(Statement(part) for node in parsed(code, filename).body for part in _parts(node))


def parsed(code: str, filename: str) -> ast.Module:
    """Parse a cell that has been converted to Python, and unwrap the code of `%time` and similar magics."""
    with PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about "\d" in a student's string
        return _Magics().visit(ast.parse(code, filename))


def _parts(node: ast.stmt) -> list[ast.stmt]:
    """Split imports by name, so that a masked or unneeded name does not affect the others."""
    if isinstance(node, ast.Import):
        return [ast.copy_location(ast.Import([alias]), node) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node) for alias in node.names]
    return [node]


class _Magics(ast.NodeTransformer):
    """Replaces `%time f()` and a cell below `%%time` with the code that they run; other magics stay calls."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        if (code := _code_of_magic(node.value)) is None:
            return self.generic_visit(node)
        text, first_line = code
        body = ast.increment_lineno(ast.parse(text), node.lineno + first_line - 2).body
        return [self.visit(one) for one in body] or ast.copy_location(ast.Pass(), node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        code = _code_of_magic(node.value)
        if code is not None and isinstance(value := ast.parse(code[0], mode="eval").body, ast.expr):
            node.value = ast.increment_lineno(value, node.lineno - 1)
        return self.generic_visit(node)


def _code_of_magic(node: ast.expr) -> tuple[str, int] | None:
    """The code in `get_ipython().run_line_magic("time", code)`, and the line of that code on which the call is."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=kind),
            args=[ast.Constant(value=str() as name), ast.Constant(value=str() as line), *more],
        ) if name in _RUNS_ITS_CODE:
            match kind, more:
                case "run_line_magic", []:
                    return line.lstrip(), 1
                case "run_cell_magic", [ast.Constant(value=str() as body)]:
                    return (body, 2) if name == "capture" or not line.strip() else None
    return None


# ---- names ----------------------------------------------------------------------------------------------------------


def _bound(node: ast.AST) -> set[str]:
    """Names that a statement binds in its own scope, and the base names of what it stores into or deletes."""
    names: set[str] = set()
    rest: list[ast.AST] = [node]
    while rest:
        node = rest.pop()
        if isinstance(node, DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, IMPORTS):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, _COMPREHENSIONS):
            inner = (one for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
            names |= {_base(one.target) for one in inner}
        else:
            if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                names.add(_base(node))
            names |= _captured(node)
            rest += _children(node)
    return names - {""}


def _captured(node: ast.AST) -> set[str]:
    """The names that `except … as error` and the patterns of `match` bind."""
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return {node.name or ""}
    return {node.rest or ""} if isinstance(node, ast.MatchMapping) else set()


def _looked_up(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Store) else {node.id}
    if isinstance(node, ast.Constant):
        return set()
    found = _of_all(_children(node))
    if isinstance(node, (*FUNCTIONS, ast.Lambda)):
        inside = [node.body] if isinstance(node, ast.Lambda) else node.body
        outside = [one for one in _children(node) if one not in inside]
        return _of_all(outside) | (_of_all(inside) - _local(node.args, inside))
    if isinstance(node, _COMPREHENSIONS):
        return found - {name for part in node.generators for name in _bound(part.target)}
    if isinstance(node, ast.AugAssign):
        found.add(_base(node.target))
    return found - {""}


def _of_all(nodes: Iterable[ast.AST]) -> set[str]:
    return set().union(*map(_looked_up, nodes))


def _local(arguments: ast.arguments, body: list[ast.stmt] | list[ast.expr]) -> set[str]:
    """The local names of a function: its parameters and what it binds, except what it declares global."""
    known = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    stored = set().union(*(_plainly_bound(one) for one in body))
    return {one.arg for one in known if one is not None} | stored - _global_in(body)


def _plainly_bound(node: ast.AST) -> set[str]:
    """Like `_bound`, but `table[1] = 2` creates no local name."""
    stores = {_base(one) for one in _own_nodes(node) if isinstance(one, ast.Attribute | ast.Subscript)}
    names = {one.id for one in _own_nodes(node) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    return _bound(node) - (stores - names)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all nodes below it, except those inside functions and classes."""
    yield node
    if not isinstance(node, (*DEFINITIONS, ast.Lambda)):
        for child in _children(node):
            yield from _own_nodes(child)


def _global_in(body: list[ast.stmt] | list[ast.expr]) -> set[str]:
    declared = (one for part in body for one in _own_nodes(part) if isinstance(one, ast.Global))
    return {name for one in declared for name in one.names}


def _children(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for field in node._fields:  # ast.iter_child_nodes takes twice as long
        value = getattr(node, field, None)
        if isinstance(value, list):
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def _base(node: ast.AST) -> str:
    """`table` for `table.rows[1]`; an empty string if the expression does not start with a name."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
