"""What a student's folder may be called, and how a name that a stranger chose is shown and written into a table.

Every name becomes a path below `autograder/verdicts/`, a row of a table and a key of the gradebook. The rule stands
here once: `folder_name` makes a name that keeps it, `not_a_student` says how another one breaks it.
"""

from __future__ import annotations

import re
import unicodedata

MOST_LETTERS = 120
MOST_BYTES = 240  # a file system's own limit is 255
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[\d.,]*")


def folder_name(name: str) -> str:
    """A name as a folder: letters of every script, digits, `.`, `_` and `-`; never hidden, never empty."""
    plain = re.sub(r"[^\w.]+", "-", unicodedata.normalize("NFC", name)).strip("-._")
    short = plain[:80].encode()[:200].decode(errors="ignore").strip("-._")  # a number of the LMS may follow
    return re.sub(r"\.csv$", "-csv", short, flags=re.IGNORECASE) or "nameless"


def not_a_student(name: str) -> str | None:
    """Why a folder of this name cannot be a student's, as the end of a sentence; None if it can."""
    reasons = {
        "it has no name": not name.strip(),
        "its name is not UTF-8 text": any("\ud800" <= letter <= "\udfff" for letter in name),
        "its name holds a control character": not name.isprintable(),
        "its name holds a slash": "/" in name or "\\" in name,
        "its name begins with a dot": name.startswith("."),
        "its name begins or ends with a blank": name != name.strip(),
        f"its name has more than {MOST_LETTERS} letters": len(name) > MOST_LETTERS,
        f"its name has more than {MOST_BYTES} bytes": len(name.encode(errors="replace")) > MOST_BYTES,
        "its name ends as a table's does (.csv)": name.lower().endswith(".csv"),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def is_named_after(file: str, week: str) -> bool:
    """Whether a notebook has the name of its week, or the one that a browser, an LMS or Jupyter gives a copy of it."""
    stem = re.sub(r"\.ipynb$", "", file, flags=re.IGNORECASE)
    stem = re.sub(r"^copy of |([-_ ]copy ?\d*|-\d+| ?\(\d+\))$", "", stem, flags=re.IGNORECASE)
    return stem.lower() in (week.lower(), week.lower().split("_")[0])


def printable(text: str) -> str:
    """A text that a stranger chose, on one line and without control characters."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in re.sub(r"\s+", " ", text))


def cell(text: str) -> str:
    """A text as the cell of a table: a spreadsheet would compute one that begins like a formula."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
