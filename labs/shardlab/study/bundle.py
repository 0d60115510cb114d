"""Export a learner's folder as one file, and import it safely: no entry can be written outside the folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shardlab.study import page
from shardlab.study.folder import FORMAT, NAME, Folder

MARK = f"{NAME}/folder.json"
LEFT_OUT = {".ipynb_checkpoints", "__pycache__"}
PUT_AWAY, UNPACKING = "before-import", ".unpacking-"
MOST_BYTES = 500 * 2**20
MOST_FILES = 20_000
STARTS_PROGRAMS = re.compile(r"jupyter.*config.*|.*\.(pth|so|dylib|pyd)|(site|user)customize\.py", re.IGNORECASE)


@dataclass(frozen=True)
class Exported:
    """How many files an export has, and the names of the files it left out because an import would refuse them."""

    count: int
    left_out: list[str]


def export(folder: Folder, target: Path) -> Exported:
    """Write all files of a folder to a new zip file, except links, caches and files that an import put away.

    Raises ValueError if the target already exists or cannot be written.
    """
    if target.exists():
        raise ValueError(f"{target} already exists: choose another name")
    files = {path.relative_to(folder.path).as_posix(): path for path in sorted(_files(folder.path))}
    taken = [name for name in files if _foreign(name) is None]
    part = target.with_name(f".{target.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as bundle:
            for name in taken:
                bundle.write(files[name], name)
        os.replace(part, target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ValueError(f"{target} cannot be written: {error}") from None
    return Exported(len(taken), sorted(files.keys() - set(taken)))


def _files(top: Path) -> Iterator[Path]:
    """The learner's files below a folder."""
    for path in top.iterdir():
        if path.is_symlink() or path.name in LEFT_OUT or path.name.startswith((PUT_AWAY, UNPACKING)):
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def bring(folder: Folder, source: Path, *, replace: bool = False) -> Path | None:
    """Put the files of a bundle into a folder; returns the folder to which earlier work was moved, or None.

    Unpacks and checks everything before it touches a file of the folder. Raises ValueError for a broken or foreign
    file, and for a folder that contains work unless `replace` allows moving that work away.
    """
    blank = is_blank(folder)
    if not (replace or blank):
        raise ValueError(f"{folder.path} contains work: export it, or use --replace, which moves it to a subfolder")
    with tempfile.TemporaryDirectory(dir=folder.path, prefix=UNPACKING) as unpacked:
        _unpack(source, Path(unpacked))
        kept = page.free(folder.path / PUT_AWAY)
        kept.mkdir()
        try:
            for path in list(folder.path.iterdir()):
                if not path.name.startswith((PUT_AWAY, UNPACKING)):
                    path.rename(kept / path.name)
            for path in list(Path(unpacked).iterdir()):
                path.rename(folder.path / path.name)
        except OSError as error:
            raise ValueError(f"the import stopped halfway ({error}): your earlier files are in {kept}") from None
    if blank:
        shutil.rmtree(kept)
    return None if blank else kept


def is_blank(folder: Folder) -> bool:
    """Whether a folder contains only pages as they were released."""
    ours = {folder.notebook(week): folder.laid_out(week) for week in folder.weeks()}
    others = {folder.path / "start.ipynb", folder.path / MARK, *ours.values()}
    for path in _files(folder.path):
        if path in others:
            continue
        laid_out = ours.get(path)
        if laid_out is None or not laid_out.is_file() or laid_out.read_bytes() != path.read_bytes():
            return False
    return True


def _unpack(source: Path, target: Path) -> None:
    """Write the files of a bundle below `target`; raises ValueError for anything that does not belong there."""
    try:
        with zipfile.ZipFile(source) as bundle:
            _refuse_foreign(bundle, source)
            left = MOST_BYTES
            for info in bundle.infolist():
                if info.is_dir():
                    continue
                path = target / info.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                with bundle.open(info) as packed, path.open("xb") as file:
                    while piece := packed.read(min(left + 1, 2**20)):
                        left -= len(piece)
                        if left < 0:
                            raise ValueError(
                                f"{source} unpacks to more than {MOST_BYTES // 2**20} MiB: nothing was changed"
                            )
                        file.write(piece)
            if json.loads((target / MARK).read_text(encoding="utf-8")).get("format") != FORMAT:
                raise ValueError(f"{source} has a format that this course cannot read: update the course first")
    except FileNotFoundError:
        raise ValueError(f"there is no file {source}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{source} is broken, so nothing was changed: {error}; export it again") from None
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, AttributeError) as error:
        raise ValueError(f"{source} cannot be unpacked, so nothing was changed: {error}") from None


def _refuse_foreign(bundle: zipfile.ZipFile, source: Path) -> None:
    """Refuse names outside the folder, links, files that programs run automatically, and files that are no export."""
    infos = bundle.infolist()
    if len(infos) > MOST_FILES or sum(info.file_size for info in infos) > MOST_BYTES:
        raise ValueError(f"{source} is larger than any learner's folder: nothing was changed")
    names = [info.filename for info in infos]
    if MARK not in names:
        raise ValueError(f"{source} is not an export of a learner's folder: it has no {MARK}")
    seen: set[str] = set()
    for info in infos:
        is_link = stat.S_ISLNK(info.external_attr >> 16)
        if is_link or (reason := _foreign(info.filename)) is not None:
            raise ValueError(
                f"{source} contains {info.filename!r}, {'a link' if is_link else reason}: nothing was changed"
            )
        if (low := info.filename.rstrip("/").lower()) in seen:
            raise ValueError(f"{source} contains {info.filename!r} twice: nothing was changed")
        seen.add(low)


def _foreign(name: str) -> str | None:
    """Why a bundle may not contain a file of this name, as the end of a sentence; None if it may."""
    parts = PurePosixPath(name).parts
    reasons = {
        "which leads out of the folder": name.startswith("/") or not parts or ".." in parts or "\\" in name,
        "which leads to another drive": bool(re.match(r"[A-Za-z]:", name)),
        "whose name is not printable": not name.isprintable(),
        "a hidden file": any(part.startswith(".") and part != NAME for part in parts),
        "which programs run or load when they start": any(STARTS_PROGRAMS.fullmatch(part) for part in parts),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
