"""The learner's `mine/` on disk. A passed check adds its block; a file edited by hand is backed up, never lost.

work/mine/zero.py        a module, written from its blocks
work/.study/mine.json    the blocks, and the digest of each module when it was last written
work/attempts/mine/      copies of modules edited by hand, made before they are overwritten
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from shardlab.own import finder
from shardlab.own.blocks import Block, Blocks, course_blocks, course_digest, dumped, loaded, module_source
from shardlab.own.loader import course_source
from shardlab.own.names import PACKAGE
from shardlab.own.pieces import GIVEN, PIECES, Piece, pieces
from shardlab.study import page
from shardlab.study.folder import NAME, Folder

COLLECT_SECONDS = 120
ABOUT = '"""My own trainer: what I wrote in SYS-602, week by week."""\n'


@dataclass(frozen=True)
class Shelf:
    """The learner's blocks by exercise, and each module's digest when it was last written."""

    blocks: Blocks
    digests: dict[str, str]


@dataclass(frozen=True)
class WrittenModule:
    """A module that was written, and backups of the files that had been edited by hand."""

    path: Path
    names: tuple[str, ...]
    backups: list[Path]


def store(folder: Folder) -> Path:
    """The file that holds the blocks."""
    return folder.path / NAME / "mine.json"


def read(folder: Folder) -> Shelf:
    """The learner's shelf; empty if there is none yet. Raises ValueError for a broken file."""
    path = store(folder)
    if not path.is_file():
        return Shelf({}, {})
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Shelf(loaded(json.dumps(found["blocks"])), {str(k): str(v) for k, v in found["digests"].items()})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} is broken ({error}): move it away, then run `shardlab study mine --collect` to rebuild it"
        ) from None


def keep(folder: Folder, piece: Piece, block: Block) -> WrittenModule:
    """Add a block and write its module. Raises Clash, before any change, if two blocks define a name differently."""
    shelf = read(folder)
    block = replace(block, signatures=course_digest(piece, course_blocks(folder.course)))
    blocks = shelf.blocks | {piece.exercise: block}
    source = module_source(piece.module, blocks)
    sources = {piece.module: source, **{name: course_source(name) for name in GIVEN}}
    backups = [kept for name, text in sources.items() if (kept := _write(folder, name, text, shelf.digests.get(name)))]
    digests = shelf.digests | {name: _digest(text) for name, text in sources.items()}
    page.write(store(folder), json.dumps({"blocks": json.loads(dumped(blocks)), "digests": digests}, indent=1) + "\n")
    finder.forget(piece.module)
    return WrittenModule(_path(folder, piece.module), piece.names, backups)


def _path(folder: Folder, module: str) -> Path:
    return folder.path / PACKAGE / f"{module}.py"


def _write(folder: Folder, module: str, source: str, digest: str | None) -> Path | None:
    """Write a module if its text has changed; returns the backup of a file that was edited by hand, or None."""
    if not (about := _path(folder, "__init__")).is_file():
        page.write(about, ABOUT)
    path = _path(folder, module)
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    if text == source:
        return None
    kept = None
    if text is not None and _digest(text) != digest:
        kept = page.free(folder.attempts / PACKAGE / path.name)
        page.write(kept, path.read_bytes())
    page.write(path, source)
    return kept


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()


def yours(folder: Folder) -> dict[str, list[tuple[Piece, bool]]]:
    """{module: [(piece, whether the learner wrote it)]}."""
    blocks = read(folder).blocks
    return {name: [(one, one.exercise in blocks) for one in pieces() if one.module == name] for name in PIECES}


def collected(folder: Folder) -> str:
    """Rebuild `mine/` from the saved pages; returns one line per piece. Raises ValueError if that fails."""
    # shardlab must not import the grader, so this runs it as a command
    program = [sys.executable, "-m", "autograder.cli", "own-collect", str(folder.path)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=COLLECT_SECONDS, check=False)
    if ended.returncode:
        said = ended.stderr.strip() or ended.stdout.strip() or "the command failed without output"
        raise ValueError(said.splitlines()[-1])
    return ended.stdout.strip()
