"""Convert a cell's text to Python with IPython's transformer: `files = !ls`, `?f`, `%time f()`, a cell below `%%time`.

This converts text to text and executes nothing. IPython is used only for cells that are not plain Python.
"""

from __future__ import annotations

import re
from functools import lru_cache

from autograder.jobs.statements import NOT_PYTHON, Statement, statements_of

MOST_LETTERS = 50_000  # characters of a cell; the longest one on a page has 3,000
MOST_WORK = 60_000  # characters times magics: IPython's transformer reads the cell again for each magic
_MAGIC = re.compile(r"^([ \t]*)[%!?].*$", re.MULTILINE)
_MAGIC_OF_ANY_KIND = re.compile(r"^[ \t]*[%!?]|=[ \t]*[%!]|\?[ \t]*$", re.MULTILINE)


class NotPython(ValueError):
    """A cell that is not Python; the message completes a sentence that its author reads."""


@lru_cache(maxsize=1024)
def read(source: str) -> tuple[str, tuple[Statement, ...]]:
    """Return a cell's code and its statements. Raises NotPython."""
    if len(source) > MOST_LETTERS:
        raise NotPython(f"it has {len(source):,} characters, but at most {MOST_LETTERS:,} are read")
    try:
        code = source
        try:
            found = statements_of(code)
        except SyntaxError:
            code = transformed(source)
            found = statements_of(code)
        for one in found:
            _ = one.binds, one.reads, one.shape, one.declares  # computed here, where too deep nesting can be reported
    except SyntaxError as error:
        line = f" in line {error.lineno}" if error.lineno else ""
        raise NotPython(f"it is not Python{line}: {error.msg}") from None
    except NOT_PYTHON as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError | MemoryError) else str(error)
        raise NotPython(f"it is not Python: {reason}") from None
    return code, found


def transformed(source: str) -> str:
    """The Python code that IPython would run; if that takes too long, the cell without its magic lines."""
    if len(source) * len(_MAGIC_OF_ANY_KIND.findall(source)) > MOST_WORK:
        return _MAGIC.sub(r"\1pass", source)
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        return TransformerManager().transform_cell(source)
    except Exception:  # untrusted text
        return source
