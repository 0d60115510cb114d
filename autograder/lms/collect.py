"""Extract the submissions from a Canvas or Moodle download and store them where the course expects them.

Names of the files in the download (Canvas: lib/content_zipper.rb, Moodle: mod/assign/locallib.php):
Canvas  doejane_12345_67890_week01.ipynb       name, user id, attachment id, file
        doejane_LATE_12345_67890_week01.ipynb
        anon_Xy7Ab_67890_week01.ipynb          with anonymous grading
Moodle  Jane Doe_12345_assignsubmission_file_/week01.ipynb     name, participant, file
        Jane Doe_12345_assignsubmission_file_week01.ipynb      without folders
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from datetime import datetime, timedelta
from pathlib import Path

from autograder.grading.roster import Roster
from autograder.lms.archive import Archive, Entry
from autograder.lms.placing import HandedIn, Line, place
from autograder.reading.ingest import read_collected
from autograder.reading.names import folder_name, is_named_after

NAMES = (
    "Its name is neither Canvas's (doejane_12345_67890_file.ipynb) nor Moodle's "
    "(Jane Doe_12345_assignsubmission_file_/file.ipynb): the sender is unknown."
)
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


Sent = tuple[Sender, Entry]


def collect(
    archive: Path,
    week: str,
    submitted: Path,
    roster: Roster | None = None,
    *,
    replace: bool = False,
    due: datetime | None = None,
) -> list[Line]:
    """Collect one week's download; every file in it gets at least one line in the report.

    `week` is the full name (week01_collectives), `due` the due date with its time zone. Raises ValueError for a file
    that is not a zip file.
    """
    lines: list[Line] = []
    with Archive(archive) as opened:
        by_student: dict[tuple[str, str], list[Sent]] = defaultdict(list)
        times = Counter(entry.name for entry in opened.entries())
        for entry in opened.entries():
            sender = sender_of(entry.name)
            if sender is None:
                lines.append(Line(entry.name, "", "left out", entry.problem or NAMES))
                continue
            by_student[sender.lms, sender.id].append((sender, entry))
        lines += [
            Line(name, "", "left out", f"The archive has {count} files of this name: the last one counts.")
            for name, count in times.items()
            if count > 1 and sender_of(name) is not None
        ]
        shared = _shared_names(by_student)
        for sent in by_student.values():
            student = _student(sent[0][0], week, submitted, shared, roster or Roster())
            lines += _collect_student(opened, sent, student, week, submitted, replace, due)
    return lines


def _shared_names(by_student: dict[tuple[str, str], list[Sent]]) -> set[str]:
    """Return folder names that more than one student of this download would get."""
    names = Counter(folder_name(sent[0][0].name).lower() for sent in by_student.values())
    return {name for name, count in names.items() if count > 1}


def _student(sender: Sender, week: str, submitted: Path, shared: set[str], roster: Roster) -> str:
    """Return the student's folder: from the class table if listed, else a stable name, whatever the LMS uses."""
    name = folder_name(sender.name)
    namesakes_here = sender.lms == "moodle" and name.lower() in shared  # a name alone is ambiguous
    key = sender.id if sender.lms == "canvas" else sender.name
    if not namesakes_here and (known_as := roster.student_of(sender.lms, key)):
        return known_as
    if sender.id.startswith("anon_"):
        return folder_name(sender.id)
    if sender.lms == "canvas":
        known = sorted(path.name for path in submitted.glob(f"*-{sender.id}") if path.is_dir())
        return known[0] if known else f"{name}-{sender.id}"
    before = read_collected(submitted / name / week)
    namesake = before is not None and before["id"] != sender.id
    return f"{name}-{sender.id}" if namesake or name.lower() in shared else name


def _collect_student(
    archive: Archive, sent: list[Sent], student: str, week: str, submitted: Path, replace: bool, due: datetime | None
) -> Iterator[Line]:
    """Choose one student's notebook, write it, and report what happened to each file."""
    readable = [one for one in sent if is_notebook(one[0]) and not one[1].problem]
    ranked = sorted(enumerate(readable), key=lambda item: (has_name_of(item[1][0], week), item[1][0].number, item[0]))
    chosen = ranked[-1][1] if ranked else None
    for sender, entry in sent:
        if (sender, entry) == chosen:
            continue
        sentence = entry.problem
        if not sentence:
            sentence = f"Another notebook counts: {chosen[1].name}." if chosen else ""
            sentence = sentence if is_notebook(sender) else "It is not a notebook (.ipynb)."
        yield Line(entry.name, student, "left out", sentence)
    if chosen is None:
        yield Line(sent[0][1].name, student, "left out", f"No notebook of {student} could be collected.")
        return
    sender, entry = chosen
    try:
        data = archive.read(entry)
    except ValueError as error:
        yield Line(entry.name, student, "left out", f"{error} No notebook of {student} could be collected.")
        return
    namesakes = sorted(path.name for path in submitted.glob(f"{student}-[0-9]*") if path.name != student)
    time, note = _time_of(sender, entry, due)
    one = HandedIn(student, sender.lms, sender.id, sender.name, entry.name, data, time, sender.late, note)
    line = place(one, week, submitted, replace=replace)
    check = f"Namesakes were collected before ({', '.join(namesakes)}): check whose this is." if namesakes else ""
    yield dataclass_replace(line, sentence=" ".join(filter(None, [line.sentence, check])))


def _time_of(sender: Sender, entry: Entry, due: datetime | None) -> tuple[datetime, str]:
    """Return when a file was submitted, and a note.

    A download records when it was created, not when the file was submitted. So only students whom the LMS marks late
    are late, and because it does not say by how much, they count as one second late.
    """
    if due is None:
        return entry.written, "LATE; the download does not say by how much." if sender.late else ""
    if sender.late:
        return due + timedelta(seconds=1), "LATE: counted as one second late; the download does not say by how much."
    return min(entry.written, due), ""


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
