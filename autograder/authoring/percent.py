"""Read the cells of a percent file. `# %% name` begins a cell; marks such as `of="right_sum"` may follow the name.

A cell marked `[raw]` on its first line need not be Python: each of its lines is written as a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BEGIN = re.compile(r"^# %%", re.MULTILINE)
HEAD = re.compile(r"(?: (?P<name>\w+)(?!\S))?(?: \[(?P<kind>\w+)\])?(?P<marks>(?: \w+=(?:\"[^\"]*\"|\S+))*)")
MARK = re.compile(r"(\w+)=(\"[^\"]*\"|\S+)")


@dataclass(frozen=True)
class Cell:
    """One cell; its text has no blank lines at the start or end."""

    name: str
    marks: dict[str, str]
    text: str


def named_cells(path: Path) -> list[Cell]:
    """Return the cells of a file, each of which needs a name. Raises ValueError for a missing or repeated name."""
    found: dict[str, Cell] = {}
    for cell in cells_of(path):
        if not cell.name or cell.name in found:
            what = f"[{cell.name}] is the name of two cells" if cell.name else "a cell has no name"
            raise ValueError(f"{path}: {what}: write `# %% some_name`, with a different name for each cell")
        found[cell.name] = cell
    return list(found.values())


def cells_of(path: Path) -> Iterator[Cell]:
    """Yield every cell of a file, named or not. Raises ValueError for a first line that cannot be parsed."""
    for part in BEGIN.split(path.read_text(encoding="utf-8"))[1:]:
        first, _, text = part.partition("\n")
        if (head := HEAD.fullmatch(first.rstrip())) is None:
            raise ValueError(f'{path}: cannot parse `# %%{first}`: write `# %% name`, then marks such as of="that"')
        lines = re.sub(r"^# ?", "", text, flags=re.MULTILINE) if head["kind"] == "raw" else text
        marks = {key: value.strip('"') for key, value in MARK.findall(head["marks"])}
        yield Cell(head["name"] or "", marks, lines.strip("\n") + "\n")
