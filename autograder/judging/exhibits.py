"""Exhibits: the prints and pictures of a manually graded code cell, made in the sandbox and kept as plain data.

No file that a student's program has encoded is passed on: pictures cross the boundary as RGB bytes and are encoded as
PNG here. Exhibits are stored next to the verdict, so that publishing runs no code.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output
from PIL import Image

from autograder.checks.base import MEMORY_ALL_BYTES, MEMORY_BYTES
from autograder.jobs.message import Job, Request
from autograder.judging.judge import Judge, clean
from autograder.reading.stand_ins import with_mine
from autograder.sandboxes.zygote import SandboxLost

TIMEOUT = 20.0  # seconds for a cell, including the import of matplotlib
MOST_TEXT = 8000  # characters of prints
MOST_PICTURES = 6
MOST_SIDE = 1200  # pixels
MOST_PNG_BYTES = 250_000
MOST_FILE_BYTES = 4 << 20


_REQUEST = Request("exhibit", 1, TIMEOUT, MEMORY_BYTES, MEMORY_ALL_BYTES, kept_output=2 * MOST_TEXT)


@dataclass(frozen=True)
class Exhibit:
    """One cell's prints, its pictures as PNG, a note if something is missing, and the hash of its source."""

    text: str
    pictures: list[bytes] = field(default_factory=list)
    note: str = ""
    source: str = ""


def source_hash(source: str) -> str:
    """The hash of a cell's text, which ties an exhibit to that version of the cell."""
    return hashlib.sha256(source.encode()).hexdigest()


def show(judge: Judge, answer: dict[str, Any]) -> Exhibit:
    """Run the cell of an answer in a separate job, after the student's other cells; failures become notes."""
    (source,) = [cell[1] for cell in answer["cells"] if cell[2]]
    try:
        came = judge.ask(Job(_REQUEST, with_mine(answer, answer["cells"][0][0]), [None]))
    except SandboxLost as error:
        return Exhibit("", note=f"The cell was not run: {error}.", source=source_hash(source))
    report, notes = came.ranks[0], []
    pictures = _pictures(report.get("pictures"), notes)
    if came.report:
        notes.append(f"The cell did not finish. {came.report}")
    elif isinstance(report.get("error"), str):
        notes.append(report["error"])
    if type(report.get("left_out")) is int and report["left_out"] > 0:
        notes.append(f"Only the first {MOST_PICTURES} pictures are kept.")
    text = clean(came.printed.replace("\r\n", "\n").replace("\r", "\n").expandtabs(), MOST_TEXT)
    return Exhibit(text, pictures, clean("\n".join(notes)), source_hash(source))


def _pictures(claimed: Any, notes: list[str]) -> list[bytes]:
    """The pictures of a report as PNG; anything that is not a picture becomes a note."""
    pictures = []
    for one in claimed[:MOST_PICTURES] if isinstance(claimed, list) else []:
        png = _png(one)
        if png is None:
            notes.append(f"Picture {len(pictures) + 1} is left out: it is not an image, or is too large.")
        else:
            pictures.append(png)
    return pictures


def _png(claimed: Any) -> bytes | None:
    """Encode raw bytes, halving the picture until the file is small enough; None if width and height do not match."""
    if not isinstance(claimed, dict):
        return None
    width, height, rgb = (claimed.get(name) for name in ("width", "height", "rgb"))
    if type(width) is not int or type(height) is not int:
        return None
    if not (0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE):
        return None
    if type(rgb) is not bytes or len(rgb) != 3 * width * height:
        return None
    picture = Image.frombytes("RGB", (width, height), rgb)
    while True:
        buffer = io.BytesIO()
        picture.save(buffer, format="PNG")
        if buffer.tell() <= MOST_PNG_BYTES:
            return buffer.getvalue()
        picture = picture.reduce(2)


def file_of(verdict_file: Path) -> Path:
    """The file of a submission's exhibits, next to its verdicts."""
    return verdict_file.with_suffix(".exhibits.json")


def write(exhibits: dict[str, Exhibit], path: Path) -> None:
    """Write the exhibits of a submission, by exercise; an empty dict removes the file of an earlier run."""
    if not exhibits:
        path.unlink(missing_ok=True)
        return
    content = {
        name: {
            "text": one.text,
            "note": one.note,
            "source": one.source,
            "pictures": [base64.b64encode(png).decode() for png in one.pictures],
        }
        for name, one in exhibits.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    draft.replace(path)


def read(path: Path) -> dict[str, Exhibit]:
    """Read a file that `write` wrote; a missing, broken or oversized file counts as empty."""
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            return {}
        content = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: Exhibit(one["text"], [base64.b64decode(p) for p in one["pictures"]], one["note"], one["source"])
            for name, one in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def outputs(exhibit: Exhibit | None, source: str) -> Sequence[NotebookNode]:
    """An exhibit as notebook outputs, only text and PNG; none if the cell's text has changed since."""
    if exhibit is None or exhibit.source != source_hash(source):
        return []
    shown = [new_output("stream", name="stdout", text=exhibit.text)] if exhibit.text else []
    for number, png in enumerate(exhibit.pictures, start=1):
        alt = {"image/png": {"alt": f"Picture {number} that the cell shows"}}
        data = {"image/png": base64.b64encode(png).decode()}
        shown.append(new_output("display_data", data=data, metadata=alt))
    note = [new_output("stream", name="stderr", text=exhibit.note)] if exhibit.note else []
    return [*shown, *note]
