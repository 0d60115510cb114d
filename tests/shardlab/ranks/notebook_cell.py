"""Functions as a notebook kernel makes them: compiled from a cell in `__main__`, with its lines in linecache."""

import linecache
import textwrap
from itertools import count
from typing import Any

_numbers = count(1000)


def run_cell(source: str, **names: Any) -> dict[str, Any]:
    """Run one cell. Returns the notebook's names afterwards: `names` and everything the cell defined."""
    text = textwrap.dedent(source)
    filename = f"/tmp/ipykernel_4711/{next(_numbers)}.py"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    known = {"__name__": "__main__", **names}
    exec(compile(text, filename, "exec"), known)
    return known
