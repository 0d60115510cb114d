"""Collect a week from nbgrader's exchange: a folder's owner decides whose it is, not the name in its path."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from autograder.grading.roster import Roster
from autograder.lms import exchange, inbound
from autograder.lms.placing import HandedIn, Line, place
from autograder.reading.names import not_a_student, printable

MOST_TRIES = 20  # per student, the newest first
CLOCKS = timedelta(minutes=10)  # tolerated between the time in a folder's name and the kernel's


@dataclass(frozen=True)
class Collection:
    """A request to collect one week into `submitted`; `secrets` maps the week's known secrets to their students."""

    week: str
    submitted: Path
    roster: Roster = field(default_factory=Roster)
    replace: bool = False
    student: str = "*"
    secrets: dict[str, str] = field(default_factory=dict)


def collect(wanted: Collection, root: Path, course: str) -> list[Line]:
    """Collect one week; each folder of the exchange gets a line in the report. At most one per student is collected.

    The newest submission by the kernel's clock counts. Raises ValueError when students could have tampered with the
    exchange.
    """
    if wrong := exchange.problems(root, course, os.geteuid()):
        raise ValueError(f"nothing was collected, because the exchange is not safe: {'; '.join(wrong)}")
    wanted.secrets.update(_secrets(wanted.submitted, wanted.week))
    lines: list[Line] = []
    with inbound.opened(root / course / "inbound") as folder:
        for owner, names in sorted(_by_owner(folder, wanted.week).items()):
            lines += _collect_student(owner, names, folder, wanted)
    return lines


def _by_owner(folder: int, week: str) -> dict[int, list[str]]:
    """Return {user: their submissions of a week, newest first}, by the owner of each folder."""
    found: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for name in os.listdir(folder):
        if _parts(name)[1] == week:
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            found[facts.st_uid].append((facts.st_ctime, name))
    return {owner: [name for _, name in sorted(entries, reverse=True)] for owner, entries in found.items()}


def _parts(name: str) -> list[str]:
    """Return STUDENT, WEEK, TIME and RANDOM from the folder name of nbgrader's submit; RANDOM may be missing."""
    parts = name.rsplit("+", 3)
    return parts if len(parts) == 4 else [*name.rsplit("+", 2), "", ""][:4]


def _collect_student(owner: int, names: Sequence[str], folder: int, wanted: Collection) -> Iterator[Line]:
    """Collect an account's newest usable submission, and report what happened to the others."""
    account = exchange.account(owner)
    student = wanted.roster.student_of("exchange", account) or account
    if wanted.student not in ("*", student):
        return
    chosen = ""
    for name in names[:MOST_TRIES]:
        reason = f"A newer submission counts: {chosen}." if chosen else _not_theirs(_parts(name)[0], account, student)
        if not reason:
            try:
                found = inbound.read(name, folder, wanted.week, owner)
            except inbound.Refused as refused:
                reason = str(refused)
            else:
                chosen = name
                yield _placed(found, name, account, student, wanted)
                continue
        yield Line(name, student, "left out", reason)
    if len(names) > MOST_TRIES:
        yield Line("", student, "left out", f"{len(names) - MOST_TRIES:,} older submissions were not examined.")


def _not_theirs(claimed: str, account: str, student: str) -> str:
    if claimed != account:
        return f"Its name says {printable(claimed)}, but it belongs to {account}: ask {account} about it."
    reason = not_a_student(student)
    return f"{printable(student)} cannot be a student's folder: {reason}." if reason else ""


def _placed(found: inbound.Submission, name: str, account: str, student: str, wanted: Collection) -> Line:
    notes = [_about_time(_parts(name)[2], found.time)]
    if found.file != f"{wanted.week}.ipynb":
        notes.append(f"{printable(found.file)[:60]} was taken as {wanted.week}.ipynb.")
    secret = found.secret
    if not secret:
        notes.append("Its secret was not made by nbgrader's submit, so the exchange cannot return its feedback.")
    elif (other := wanted.secrets.setdefault(secret, student)) != student:
        notes.append(f"It has the same secret as {other}'s, so the exchange cannot return its feedback.")
        secret = ""
    note = " ".join(filter(None, notes))
    one = HandedIn(student, "exchange", account, account, name, found.data, found.time, note=note, secret=secret)
    return place(one, wanted.week, wanted.submitted, replace=wanted.replace)


def _about_time(claimed: str, written: datetime) -> str:
    """Return a sentence if the time in the folder's name, which a student can choose, differs from the kernel's."""
    for pattern in ("%Y-%m-%d %H:%M:%S.%f UTC", "%Y-%m-%d %H:%M:%S UTC"):
        try:
            said = datetime.strptime(claimed, pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
        if abs(said - written) <= CLOCKS:
            return ""
    return f"Its name says {printable(claimed)[:40]}; it was written at {written:%Y-%m-%d %H:%M} UTC, which counts."


def _secrets(submitted: Path, week: str) -> dict[str, str]:
    """Return {secret: student} of the submissions collected before."""
    found: dict[str, str] = {}
    for path in sorted(submitted.glob(f"*/{week}/submission_secret.txt")):
        if path.is_file() and not path.is_symlink():
            found.setdefault(path.read_text(errors="replace").strip(), path.parent.parent.name)
    return found
