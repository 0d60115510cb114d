"""Read an untrusted archive: nothing is extracted, names are treated as plain text, and sizes are bounded."""

from __future__ import annotations

import stat
import zipfile
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import TracebackType

from autograder.reading.notebook_file import MAX_BYTES

MOST_FILES = 20_000
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # other methods can unpack megabytes in a single read


@dataclass(frozen=True)
class Entry:
    """One file of an archive; if it must not be read, `problem` is a sentence that says why."""

    name: str
    info: zipfile.ZipInfo
    problem: str = ""

    @property
    def written(self) -> datetime:
        """The modification time in UTC; archives store no time zone, so this machine's is assumed."""
        try:
            return datetime(*self.info.date_time).astimezone(UTC)
        except (ValueError, OSError, OverflowError):
            return datetime(1980, 1, 1, tzinfo=UTC)


class Archive:
    """A zip file opened for reading. Raises ValueError when it is not a zip file, or contains too many files."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise ValueError(f"{path} cannot be opened as a zip file: {error}") from None
        if len(self._file.infolist()) > MOST_FILES:
            self._file.close()
            raise ValueError(f"{path} contains more than {MOST_FILES:,} files: pass one assignment's download only")

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def entries(self) -> list[Entry]:
        """Return every file in the archive's order, with its problem if it has one; folders are omitted."""
        return [Entry(info.orig_filename, info, _problem(info)) for info in self._file.infolist() if not info.is_dir()]

    def read(self, entry: Entry) -> bytes:
        """Return the bytes of one file. Raises ValueError with a sentence when they cannot or must not be read."""
        if entry.problem:
            raise ValueError(entry.problem)
        try:
            with self._file.open(entry.info) as file:
                data = file.read(MAX_BYTES + 1)
                if len(data) <= MAX_BYTES:
                    file.read(1)  # reading to the end verifies the checksum
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError) as error:
            raise ValueError(f"It is damaged in the zip file: {error}.") from None
        if len(data) > MAX_BYTES:
            raise ValueError(_too_large(len(data)))
        return data


def _problem(info: zipfile.ZipInfo) -> str:
    """Return why a file of the archive must not be read, or an empty string."""
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    parts = PurePosixPath(name.replace("\\", "/")).parts
    reasons = {
        "Its path leads out of the folder or contains control characters: it was not read.": ".." in parts
        or name.startswith(("/", "\\"))
        or ":" in name[:2]
        or not name.isprintable(),
        "It is a symbolic link, not a file: it was not followed.": kind == stat.S_IFLNK,
        "It is not a regular file: it was not read.": kind not in (0, stat.S_IFREG),
        "It is encrypted: ask for the file without a password.": bool(info.flag_bits & 1),
        "It is compressed with a method that neither Canvas nor Moodle uses: it was not read.": info.compress_type
        not in METHODS,
        _too_large(info.file_size): info.file_size > MAX_BYTES,
    }
    return next((sentence for sentence, holds in reasons.items() if holds), "")


def _too_large(size: int) -> str:
    return (
        f"It unpacks to {size / 1e6:.1f} MB or more, and at most {MAX_BYTES / 1e6:.0f} MB are read: clear the outputs."
    )
