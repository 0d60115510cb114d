"""Strip comments and docstrings from a program, to compare versions by what they do."""

from __future__ import annotations

import ast
import io
import tokenize

from autograder.jobs.statements import PARSING

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Span = tuple[int, int, int, int, str]  # first line and column, last line and column, replacement


def without_words(source: str) -> str:
    """The lines of a program without comments, docstrings and empty lines; other string literals stay.

    The result is the same in every version of Python, unlike the output of `ast`. Raises SyntaxError for invalid code.
    """
    lines = source.splitlines()
    spans = [*_comments(source), *_docstrings(source, lines)]
    for first, begin, last, end, instead in sorted(spans, reverse=True):  # from the end: earlier places stay valid
        kept = lines[first][:begin] + instead + lines[last][end:]
        lines[first : last + 1] = [kept]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _comments(source: str) -> list[Span]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        (token.start[0] - 1, token.start[1], token.end[0] - 1, token.end[1], "")
        for token in tokens
        if token.type == tokenize.COMMENT
    ]


def _docstrings(source: str, lines: list[str]) -> list[Span]:
    found = []
    with PARSING:
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            first, last = text.lineno - 1, (text.end_lineno or text.lineno) - 1
            begin, end = _column(lines[first], text.col_offset), _column(lines[last], text.end_col_offset)
            found.append((first, begin, last, end, "pass" if len(node.body) == 1 else ""))
    return found


def _column(line: str, offset: int | None) -> int:
    """Convert an offset of `ast`, which counts UTF-8 bytes, to a column."""
    return len(line.encode()[: offset or 0].decode())
