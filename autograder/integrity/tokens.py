"""Turn an answer into tokens that do not depend on names, comments, layout or harmless reordering.

Code is parsed, never run. Names bound by the answer become `v`, strings become `'s'`, and docstrings, imports and
annotations are removed; `a += b` becomes `a = a + b`, operands of `+` and `*` and keyword arguments are sorted, and
independent statements are put in a fixed order. Code that does not parse is compared as text.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import warnings
from dataclasses import dataclass

MOST_LETTERS = 30_000  # per answer; the rest is not compared
MOST_SORTED = 100  # statements per block; longer blocks keep their order
WORD = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)?|[^\w\s]")
NO_CODE = re.compile(r"#[^\n]*|(?P<text>'''(?s:.*?)'''|\"\"\"(?s:.*?)\"\"\"|'[^'\n]*'|\"[^\"\n]*\")")
SWAPPABLE = (ast.Add, ast.Mult, ast.BitXor, ast.BitOr, ast.BitAnd)
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
QUIET = frozenset(
    (
        *("len", "range", "list", "tuple", "dict", "sum", "min", "max", "abs", "int", "float"),
        *("get_rank", "get_world_size", "empty_like", "zeros_like", "new_empty", "numel", "clone", "cat"),
        *("flatten", "reshape", "view", "tensor_split", "chunk", "split"),
    )
)  # calls without side effects: statements around them may be swapped


@dataclass(frozen=True)
class Token:
    """One token of an answer, and the line it comes from (1, 2, ...)."""

    text: str
    line: int


def code_tokens(source: str) -> list[Token] | None:
    """Return the tokens of an answer's syntax tree, or None if it is not valid Python."""
    plain = "\n".join(
        "pass" if line.lstrip().startswith(("!", "%")) else line for line in source[:MOST_LETTERS].split("\n")
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as about a student's "\d"
            tree = ast.parse(plain)
            return _Writer(_bound(tree)).block(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def text_tokens(source: str, code: bool = True) -> list[Token]:
    """Return the words and symbols of a written answer, or of code that does not parse."""
    text = source[:MOST_LETTERS]
    if code:
        text = NO_CODE.sub(lambda found: ("'s'" if found["text"] else "") + "\n" * found[0].count("\n"), text)
    tokens, line, place, before = [], 1, 0, ""
    for found in WORD.finditer(text):
        line += text.count("\n", place, found.start())
        place, word = found.start(), found[0]
        known = not word.isidentifier() or keyword.iskeyword(word) or hasattr(builtins, word) or before == "."
        tokens.append(Token((word if known else "v") if code else word.lower(), line))
        before = word
    return tokens


def _bound(tree: ast.Module) -> set[str]:
    """Return every name that the answer binds: variables, parameters, functions, classes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, NAMED) and node.name:
            names.add(node.name)
    return names


class _Writer:
    """Writes a tree as tokens: a node's kind, its parts in order, and `)` if it has any."""

    def __init__(self, bound: set[str]) -> None:
        self.bound = bound

    def block(self, statements: list[ast.stmt]) -> list[Token]:
        """Sort statements: each as early as its dependencies allow, ties broken by their text."""
        plain = _plain(statements)
        texts = [self.node(one) for one in plain]
        if len(plain) > MOST_SORTED:
            return [token for text in texts for token in text]
        needs = [_Needs(one, self.bound) for one in plain]
        waits_for = [
            {earlier for earlier in range(at) if needs[at].comes_after(needs[earlier])} for at in range(len(plain))
        ]
        tokens: list[Token] = []
        waiting = dict(enumerate(texts))
        while waiting:
            free = [at for at in waiting if not waits_for[at] & waiting.keys()]
            tokens += waiting.pop(min(free, key=lambda at: [token.text for token in waiting[at]]))
        return tokens

    def node(self, node: ast.AST) -> list[Token]:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            return [Token("v" if node.id in self.bound else node.id, line)]
        if isinstance(node, ast.Constant):
            return [Token("'s'" if isinstance(node.value, str | bytes) else repr(node.value)[:40], line)]
        if isinstance(node, ast.JoinedStr):
            return [Token("'s'", line)]
        if isinstance(node, ast.AugAssign):
            value = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
            return self.node(ast.copy_location(ast.Assign([node.target], value), node))
        if isinstance(node, ast.AnnAssign):
            return self.node(ast.copy_location(ast.Assign([node.target], node.value or ast.Constant(None)), node))
        inner = self._operands(node) if isinstance(node, ast.BinOp) else self._parts(node)
        name = type(node).__name__ + (f".{node.attr}" if isinstance(node, ast.Attribute) else "")
        inner = [token if token.line else Token(token.text, line) for token in inner]
        return [Token(f"{name}(", line), *inner, Token(")", line)] if inner else [Token(name, line)]

    def _operands(self, node: ast.BinOp) -> list[Token]:
        sides = [self.node(node.left), self.node(node.right)]
        if isinstance(node.op, SWAPPABLE):
            sides.sort(key=lambda side: [token.text for token in side])
        return [*sides[0], Token(type(node.op).__name__, node.lineno), *sides[1]]

    def _parts(self, node: ast.AST) -> list[Token]:
        tokens: list[Token] = []
        for name, field in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_comment", "ctx", "decorator_list", "type_params"):
                continue
            value = sorted(field, key=lambda word: word.arg or "") if name == "keywords" else field
            if isinstance(value, ast.AST):
                tokens += self.node(value)
            elif isinstance(value, list) and value and all(isinstance(one, ast.stmt) for one in value):
                tokens += [Token(name, 0), *self.block(value)]
            elif isinstance(value, list):
                tokens += [token for one in value if isinstance(one, ast.AST) for token in self.node(one)]
            elif isinstance(node, ast.keyword) and isinstance(value, str):
                tokens.append(Token(f"{value}=", 0))
        return tokens


class _Needs:
    """The names that a statement reads and binds, and whether it has other effects."""

    def __init__(self, statement: ast.stmt, bound: set[str]) -> None:
        self.reads: set[str] = set()
        self.binds: set[str] = set()
        self.acts = isinstance(
            statement, ast.Return | ast.Raise | ast.Break | ast.Continue | ast.Global | ast.Nonlocal | ast.Assert
        )
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in bound:
                (self.reads if isinstance(node.ctx, ast.Load) else self.binds).add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.binds.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                self.acts = True
            elif isinstance(node, ast.Call) and not isinstance(statement, ast.FunctionDef):
                self.acts = self.acts or _called(node) not in QUIET

    def comes_after(self, earlier: _Needs) -> bool:
        """Return whether swapping the two could change the result."""
        return (
            (self.acts and earlier.acts)
            or bool(self.reads & earlier.binds)
            or bool(self.binds & (earlier.reads | earlier.binds))
            or ((self.acts or earlier.acts) and bool(self.reads & earlier.reads))
        )


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _plain(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements without docstrings, imports and `pass`; `a, b = 1, 2` becomes two statements."""
    kept: list[ast.stmt] = []
    for one in statements:
        if isinstance(one, ast.Import | ast.ImportFrom | ast.Pass):
            continue
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            continue
        kept += _one_by_one(one) if isinstance(one, ast.Assign) else [one]
    return kept


def _one_by_one(assign: ast.Assign) -> list[ast.stmt]:
    """Split `a, b = 1, 2` into two assignments; `a, b = b, a` is left unchanged."""
    pair, value = assign.targets[0], assign.value
    if not (isinstance(pair, ast.Tuple) and isinstance(value, ast.Tuple) and len(pair.elts) == len(value.elts)):
        return [assign]
    bound = {node.id for node in ast.walk(pair) if isinstance(node, ast.Name)}
    if any(isinstance(node, ast.Name) and node.id in bound for node in ast.walk(value)):
        return [assign]
    parts = zip(pair.elts, value.elts, strict=True)
    return [ast.copy_location(ast.Assign([target], part), assign) for target, part in parts]
