"""Collect from git: a table names each student's repository, of which one file is read and nothing is checked out.

The table is GitHub Classroom's ("Download", or `gh classroom assignment-grades`), or the class's own (`roster.py`) with
the columns `repository`, and `branch` if it is not the default one. A clone holds the newest commit without its files;
then the week's notebook alone is fetched. So no hook, filter or link of a student's repository takes effect here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace as replace_fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath

from autograder.grading.roster import Roster, Student, read
from autograder.lms.placing import HandedIn, Line, place
from autograder.reading.names import is_named_after, printable
from autograder.reading.notebook_file import MAX_BYTES

AT_ONCE = 8
SECONDS = 120.0  # of one call of git
PROTOCOLS = "https:http:ssh:git:file"  # without ext, which runs a program that an address names
BARE = "--quiet --bare --no-local --depth=1 --single-branch --no-tags --filter=blob:none --template="
COURSE = ("course", "solutions")  # in a student's copy of the whole course: pages as they were given out


def collect(
    table: Path,
    week: str,
    submitted: Path,
    roster: Roster | None = None,
    *,
    replace: bool = False,
    seconds: float = SECONDS,
) -> list[Line]:
    """Collect one week from every repository of the table; each has a line in the report.

    Raises ValueError when the table cannot be read, or git is not there.
    """
    if shutil.which("git") is None:
        raise ValueError("git is not installed: submissions in repositories cannot be collected")
    rows, lines = repositories_of(read(table), roster or Roster())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        fetched = list(pool.map(partial(_fetch, week=week, seconds=seconds), rows))
    for one in fetched:
        lines.append(one if isinstance(one, Line) else place(one, week, submitted, replace=replace))
    return lines


def repositories_of(table: Roster, roster: Roster) -> tuple[list[Student], list[Line]]:
    """The students of a table who have a repository, as the class's own table calls them, and a line for the others."""
    lines = [Line("", "", "left out", problem) for problem in table.problems]
    rows: dict[str, Student] = {}
    for row in table.students:
        one = replace_fields(row, student=roster.student_of("git", row.git) or row.student)
        problem = ""
        if not one.repository:
            problem = "The row names no repository: this student has none yet."
        elif one.repository.startswith("-"):
            problem = "That is not the address of a repository."
        elif one.student.lower() in rows:
            problem = f"{rows[one.student.lower()].repository} is {one.student}'s already: the first row counts."
        if problem:
            lines.append(Line(one.repository, one.student, "left out", problem))
        else:
            rows[one.student.lower()] = one
    return list(rows.values()), lines


def _fetch(one: Student, week: str, seconds: float) -> HandedIn | Line:
    """The week's notebook of one repository, or the line that says why there is none."""
    try:
        with tempfile.TemporaryDirectory(prefix="collect-") as folder:
            branch = [f"--branch={one.branch}"] if one.branch else []
            _git(["clone", *BARE.split(), *branch, "--", one.repository, folder], seconds)
            inside = partial(_git, seconds=seconds, folder=folder)
            path, blob = _notebook(inside(["ls-tree", "-r", "-z", "--full-tree", "HEAD"]), week)
            size = int(inside(["cat-file", "-s", blob]))
            if size > MAX_BYTES:
                raise ValueError(
                    f"{path} has {size / 1e6:.1f} MB, and at most {MAX_BYTES / 1e6:.0f} MB are read: clear the outputs."
                )
            data = inside(["cat-file", "blob", blob])
            commit, when = inside(["log", "-1", "--format=%h %ct", "HEAD"]).decode().split()
            time = datetime.fromtimestamp(min(int(when), datetime.now(UTC).timestamp()), UTC)
    except (ValueError, OverflowError, OSError) as error:
        return Line(one.repository, one.student, "left out", str(error))
    note = f"Commit {commit} of {time:%Y-%m-%d %H:%M} UTC, by the clock of whoever made it."
    return HandedIn(one.student, "git", one.repository, one.name, path, data, time, note=note)


def _notebook(listing: bytes, week: str) -> tuple[str, str]:
    """Path and hash of the week's notebook in a listing of the commit. Raises ValueError unless there is one."""
    found = {}
    for entry in filter(None, listing.decode(errors="replace").split("\0")):
        facts, path = entry.split("\t", 1)
        mode, _, blob = facts.split()
        parts = PurePosixPath(path).parts
        if mode.startswith("100") and parts[-1].lower().endswith(".ipynb") and is_named_after(parts[-1], week):
            found[path] = (blob, parts)
    own = {path: one for path, one in found.items() if one[1][0] not in COURSE} or found
    exact = {path: one for path, one in own.items() if one[1][-1] == f"{week}.ipynb"} or own
    if not exact:
        raise ValueError(f"No file {week}.ipynb in its newest commit.")
    if len({blob for blob, _ in exact.values()}) > 1:
        raise ValueError(f"It has {len(exact)} notebooks of this week, none was chosen: {printable(', '.join(exact))}.")
    path, (blob, _) = next(iter(exact.items()))
    return path, blob


def _git(words: Sequence[str], seconds: float, folder: str = ".") -> bytes:
    """What git prints. Raises ValueError with its complaint, or when it takes too long; it never asks for a password.

    git talks to a server through programs of its own, which hold its pipes: they are ended with it.
    """
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": PROTOCOLS, "LC_ALL": "C"}
    ssh = {"GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")}
    git = subprocess.Popen(
        ["git", "-C", folder, *words],
        env=os.environ | quiet | ssh,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        printed, complaint = git.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(git.pid, signal.SIGKILL)
        git.communicate()
        raise ValueError(f"git did not answer within {seconds:g} s.") from None
    if git.returncode != 0:
        said = printable(complaint.decode(errors="replace").strip()) or f"status {git.returncode}"
        raise ValueError(f"git could not read it: {said[:300]}")
    return printed
