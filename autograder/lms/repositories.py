"""Collect from git: a table lists each student's repository. One file is read from each; nothing is checked out.

The table is GitHub Classroom's ("Download", or `gh classroom assignment-grades`), or the class's own (`roster.py`) with
the columns `repository` and, if it is not the default branch, `branch`. A clone fetches the newest commit without its
files, then only the week's notebook. So hooks, filters and links in a student's repository have no effect here.
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
SECONDS = 120.0  # per call of git
PROTOCOLS = "https:http:ssh:git:file"  # excludes ext, which runs a program named in the URL
BARE = "--quiet --bare --no-local --depth=1 --single-branch --no-tags --filter=blob:none --template="
COURSE = ("course", "solutions")  # the original pages, in a student's copy of the whole course


def collect(
    table: Path,
    week: str,
    submitted: Path,
    roster: Roster | None = None,
    *,
    replace: bool = False,
    seconds: float = SECONDS,
) -> list[Line]:
    """Collect one week from every repository of the table; each gets a line in the report.

    Raises ValueError when the table cannot be read or git is not installed.
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
    """Return a table's students who have a repository, under the class table's names, and a line for each other row."""
    lines = [Line("", "", "left out", problem) for problem in table.problems]
    rows: dict[str, Student] = {}
    for row in table.students:
        one = replace_fields(row, student=roster.student_of("git", row.git) or row.student)
        problem = ""
        if not one.repository:
            problem = "The row has no repository: this student has none yet."
        elif one.repository.startswith("-"):
            problem = "This is not the address of a repository."
        elif one.student.lower() in rows:
            problem = f"{rows[one.student.lower()].repository} is {one.student}'s already: the first row counts."
        if problem:
            lines.append(Line(one.repository, one.student, "left out", problem))
        else:
            rows[one.student.lower()] = one
    return list(rows.values()), lines


def _fetch(one: Student, week: str, seconds: float) -> HandedIn | Line:
    """Return the week's notebook in one repository, or a report line that says why there is none."""
    try:
        with tempfile.TemporaryDirectory(prefix="collect-") as folder:
            branch = [f"--branch={one.branch}"] if one.branch else []
            _git(["clone", *BARE.split(), *branch, "--", one.repository, folder], seconds)
            inside = partial(_git, seconds=seconds, folder=folder)
            path, blob = _notebook(inside(["ls-tree", "-r", "-z", "--full-tree", "HEAD"]), week)
            size = int(inside(["cat-file", "-s", blob]))
            if size > MAX_BYTES:
                raise ValueError(
                    f"{path} is {size / 1e6:.1f} MB, and at most {MAX_BYTES / 1e6:.0f} MB are read: clear the outputs."
                )
            data = inside(["cat-file", "blob", blob])
            commit, when = inside(["log", "-1", "--format=%h %ct", "HEAD"]).decode().split()
            time = datetime.fromtimestamp(min(int(when), datetime.now(UTC).timestamp()), UTC)
    except (ValueError, OverflowError, OSError) as error:
        return Line(one.repository, one.student, "left out", str(error))
    note = f"Commit {commit} of {time:%Y-%m-%d %H:%M} UTC, by its author's clock."
    return HandedIn(one.student, "git", one.repository, one.name, path, data, time, note=note)


def _notebook(listing: bytes, week: str) -> tuple[str, str]:
    """Return path and hash of the week's notebook in a commit's listing. Raises ValueError unless there is just one."""
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
        raise ValueError(f"Its newest commit has no file {week}.ipynb.")
    if len({blob for blob, _ in exact.values()}) > 1:
        raise ValueError(f"It has {len(exact)} notebooks of this week; none was chosen: {printable(', '.join(exact))}.")
    path, (blob, _) = next(iter(exact.items()))
    return path, blob


def _git(words: Sequence[str], seconds: float, folder: str = ".") -> bytes:
    """Return git's output. Raises ValueError with its error message, or if it takes too long; it never prompts.

    git talks to servers through child processes that hold its pipes open; those are ended with it.
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
