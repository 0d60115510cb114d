"""Identify the sender of a file from the file names in Canvas's and Moodle's "Download submissions".

Canvas (lib/content_zipper.rb):   doejane_12345_67890_week01.ipynb     name, user id, attachment id, file
                                  doejane_LATE_12345_67890_week01.ipynb
                                  anon_Xy7Ab_67890_week01.ipynb        with anonymous grading
Moodle (mod/assign/locallib.php): Jane Doe_12345_assignsubmission_file_/week01.ipynb     name, participant, file
                                  Jane Doe_12345_assignsubmission_file_week01.ipynb      without folders
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograder.reading.names import is_named_after

CANVAS = re.compile(
    r"(?:(?P<name>(?!LATE_|anon_)[^/]+?)_)?(?P<late>LATE_)?(?P<id>anon_[^_/]+|\d+)_(?P<number>\d+)_(?P<file>[^/]+)"
)
MOODLE = re.compile(r"(?:.*/)?(?P<name>[^/]+?)_(?P<id>\d+)_assignsubmission_(?P<kind>[a-z]+)_/?(?P<file>.+)")


@dataclass(frozen=True)
class Sender:
    """The sender of a file, according to the file's name.

    id      Canvas: the user, the same in all weeks. Moodle: the participant, a different number in each assignment
    number  Canvas: the attachment; later uploads have larger numbers. Moodle: 0
    """

    lms: str
    id: str
    name: str
    file: str
    late: bool = False
    number: int = 0
    kind: str = "file"


def sender_of(path: str) -> Sender | None:
    """Parse the sender from a path inside the archive; None if it matches neither LMS's pattern."""
    if found := MOODLE.fullmatch(path):
        return Sender("moodle", found["id"], found["name"], found["file"], kind=found["kind"])
    if found := CANVAS.fullmatch(path.rsplit("/", 1)[-1]):
        name = found["name"] or ""
        return Sender("canvas", found["id"], name, found["file"], found["late"] is not None, int(found["number"]))
    return None


def is_notebook(sender: Sender) -> bool:
    """Return whether the file's name is that of a notebook."""
    return sender.kind == "file" and sender.file.lower().endswith(".ipynb")


def has_name_of(sender: Sender, week: str) -> bool:
    """Return whether the file is named after the week, or is a copy of such a file."""
    return is_named_after(sender.file.rsplit("/", 1)[-1], week)
