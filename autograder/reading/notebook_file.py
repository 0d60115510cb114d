"""Read a notebook file as data: bytes of a regular file, JSON of limited size and depth, cells with text.

Every problem raises NotReadable, with a sentence for the student.
"""

import json
import os
import re
import stat
from pathlib import Path

from shardlab.own.packing import MIME

MAX_BYTES = 5_000_000
MAX_DEPTH = 40  # JupyterLab's notebooks stay below ten
MAX_CELLS = 5000


class NotReadable(ValueError):
    """A submission that cannot be read; the message is the sentence for the student."""


def read_regular_file(path: Path, top: Path) -> bytes:
    """Read a file of at most 5 MB below `top`, without following symbolic links.

    Raises NotReadable if it is not a regular file or is too large.
    """
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        *folders, name = path.relative_to(top).parts
        for part in folders:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        # O_NONBLOCK: opening a named pipe must not wait for a writer
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise NotReadable("it is a link or not a regular file; submit the file itself") from error
    finally:
        os.close(folder)
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        os.close(file)
        raise NotReadable("it is not a regular file; submit the file itself")
    with os.fdopen(file, "rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        size = max(facts.st_size, len(data)) / 1e6
        raise NotReadable(f"it has {size:.1f} MB, but at most {MAX_BYTES / 1e6:.0f} MB are read; clear its outputs")
    return data


def parse(data: bytes) -> list[dict]:
    """Turn the bytes of a notebook into cells with `cell_type`, `source` and `id` (text) and `metadata` (dict).

    Raises NotReadable for the first problem.
    """
    try:
        text = data.decode("utf-8-sig")
        _refuse_deep(text)
        content = json.loads(text)
    except UnicodeDecodeError as error:
        raise NotReadable(f"byte {error.start} is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise NotReadable(f"it is not a notebook, JSON error at line {error.lineno}: {error.msg}") from error
    except NotReadable:
        raise
    except (ValueError, RecursionError) as error:
        raise NotReadable("it is not a notebook, because it contains a number that is too long") from error
    if not isinstance(content, dict):
        raise NotReadable("it is not a notebook, because its top level is not an object")
    if content.get("nbformat") == 3:
        content = {"cells": _cells_of_version_3(content)}
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise NotReadable("it is not a notebook, because it has no list of cells")
    if len(cells) > MAX_CELLS:
        raise NotReadable(f"it has {len(cells):,} cells, but at most {MAX_CELLS:,} are read")
    return [_plain_cell(cell, number) for number, cell in enumerate(cells, start=1)]


def _plain_cell(cell: object, number: int) -> dict:
    """Check one cell; keep its type, text, metadata, id, and the modules of the learner's `mine/` packed in it."""
    if not isinstance(cell, dict):
        raise NotReadable(f"cell {number} is not an object")
    source, metadata = cell.get("source", ""), cell.get("metadata", {})
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise NotReadable(f"cell {number}: its source is not text")
    if cell.get("cell_type") not in ("code", "markdown", "raw"):
        raise NotReadable(f"cell {number}: its type is not code, markdown or raw")
    clean = source.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate could not be written to a file
    return {
        "cell_type": cell["cell_type"],
        "source": clean.replace("\r\n", "\n").replace("\r", "\n"),
        "metadata": metadata if isinstance(metadata, dict) else {},
        "id": cell["id"] if isinstance(cell.get("id"), str) else "",
        "packed": _packed(cell.get("outputs")),
    }


def _packed(outputs: object) -> str:
    """The text that `shardlab.own.pack` put into an output of the cell; everything else in outputs is ignored."""
    for output in outputs if isinstance(outputs, list) else []:
        data = output.get("data") if isinstance(output, dict) else None
        text = data.get(MIME) if isinstance(data, dict) else None
        if isinstance(text, list) and all(isinstance(line, str) for line in text):
            text = "".join(text)
        if isinstance(text, str):
            return text.encode("utf-8", "replace").decode("utf-8")
    return ""


def _cells_of_version_3(content: dict) -> list:
    """Collect the cells of a notebook from before 2015, which has worksheets and calls the source `input`."""
    sheets = content.get("worksheets")
    sheets = sheets if isinstance(sheets, list) else []
    lists = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    cells = [cell for cells in lists if isinstance(cells, list) for cell in cells if isinstance(cell, dict)]
    types = {"code": "code", "raw": "raw"}  # version 3 also had html and heading cells
    return [
        {
            "cell_type": types.get(str(cell.get("cell_type")), "markdown"),
            "source": cell.get("input", cell.get("source", "")),
            "metadata": cell.get("metadata"),
        }
        for cell in cells
    ]


def _refuse_deep(text: str) -> None:
    """Refuse brackets that are nested deeper than in any real notebook, before a parser reads them."""
    depth, in_string = 0, False
    for match in re.finditer(r'\\.|["\[\]{}]', text, re.DOTALL):
        mark = match.group()
        if mark == '"':
            in_string = not in_string
        elif not in_string and mark in "[{":
            depth += 1
        elif not in_string and mark in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise NotReadable(f"its JSON is nested more than {MAX_DEPTH} levels deep")
