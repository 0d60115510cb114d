"""Rules for the names of students' folders, and safe ways to show untrusted names and write them into a table.

Every name becomes a path below `autograder/verdicts/`, a row of a table and a key of the gradebook. `folder_name`
makes a valid name, and `not_a_student` says why a name is invalid.
"""

from __future__ import annotations

import re
import unicodedata

MOST_LETTERS = 120
MOST_BYTES = 240  # the limit of file systems is 255
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[\d.,]*")


def folder_name(name: str) -> str:
    """Convert a name to a folder name: letters of any script, digits, `.`, `_` and `-`; never hidden or empty."""
    plain = re.sub(r"[^\w.]+", "-", unicodedata.normalize("NFC", name)).strip("-._")
    short = plain[:80].encode()[:200].decode(errors="ignore").strip("-._")  # leaves room for a number from the LMS
    return re.sub(r"\.csv$", "-csv", short, flags=re.IGNORECASE) or "nameless"


def not_a_student(name: str) -> str | None:
    """Say why a folder of this name cannot be a student's, as the end of a sentence; None if it can."""
    reasons = {
        "it has no name": not name.strip(),
        "its name is not UTF-8 text": any("\ud800" <= letter <= "\udfff" for letter in name),
        "its name contains a control character": not name.isprintable(),
        "its name contains a slash": "/" in name or "\\" in name,
        "its name begins with a dot": name.startswith("."),
        "its name begins or ends with a space": name != name.strip(),
        f"its name has more than {MOST_LETTERS} letters": len(name) > MOST_LETTERS,
        f"its name has more than {MOST_BYTES} bytes": len(name.encode(errors="replace")) > MOST_BYTES,
        "its name ends in .csv, like a table's": name.lower().endswith(".csv"),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def is_named_after(file: str, week: str) -> bool:
    """Whether a notebook is named after its week, or as a browser, an LMS or Jupyter names a copy of it."""
    stem = re.sub(r"\.ipynb$", "", file, flags=re.IGNORECASE)
    stem = re.sub(r"^copy of |([-_ ]copy ?\d*|-\d+| ?\(\d+\))$", "", stem, flags=re.IGNORECASE)
    return stem.lower() in (week.lower(), week.lower().split("_")[0])


def printable(text: str) -> str:
    """Convert untrusted text to one line without control characters."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in re.sub(r"\s+", " ", text))


def cell(text: str) -> str:
    """Escape a table cell that begins like a formula, because a spreadsheet would compute it."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
