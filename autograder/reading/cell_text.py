"""A cell's text as Python, by IPython's own transformer: `files = !ls`, `?f`, `%time f()`, a cell below `%%time`.

Text becomes text; nothing is executed. IPython is asked only about a cell that is not Python already.
"""

from __future__ import annotations

import re
from functools import lru_cache

from autograder.jobs.statements import NOT_PYTHON, Statement, statements_of

MOST_LETTERS = 50_000  # of a cell; a page's longest has 3,000
MOST_WORK = 60_000  # letters of a cell times its magics: IPython's transformer reads the cell again for each of them
_MAGIC = re.compile(r"^([ \t]*)[%!?].*$", re.MULTILINE)
_MAGIC_OF_ANY_KIND = re.compile(r"^[ \t]*[%!?]|=[ \t]*[%!]|\?[ \t]*$", re.MULTILINE)


class NotPython(ValueError):
    """A cell that is not Python; the message is the end of a sentence for its author."""


@lru_cache(maxsize=1024)
def read(source: str) -> tuple[str, tuple[Statement, ...]]:
    """A cell's code and its statements. Raises NotPython."""
    if len(source) > MOST_LETTERS:
        raise NotPython(f"it has {len(source):,} characters and at most {MOST_LETTERS:,} are read")
    try:
        code = source
        try:
            found = statements_of(code)
        except SyntaxError:
            code = transformed(source)
            found = statements_of(code)
        for one in found:
            _ = one.binds, one.reads, one.shape, one.declares  # now, while it can still be said that it is too deep
    except SyntaxError as error:
        line = f" in line {error.lineno}" if error.lineno else ""
        raise NotPython(f"it is not Python{line}: {error.msg}") from None
    except NOT_PYTHON as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError | MemoryError) else str(error)
        raise NotPython(f"it is not Python: {reason}") from None
    return code, found


def transformed(source: str) -> str:
    """The Python that IPython would run; where that takes too long, the cell without its lines of magic."""
    if len(source) * len(_MAGIC_OF_ANY_KIND.findall(source)) > MOST_WORK:
        return _MAGIC.sub(r"\1pass", source)
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        return TransformerManager().transform_cell(source)
    except Exception:  # a text that a stranger has chosen
        return source
