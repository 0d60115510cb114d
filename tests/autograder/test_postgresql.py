"""The gradebook in PostgreSQL, by URL: a separate server, reached through a socket in a private folder."""

import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from tiny_course import TINY_WEEK, hand_in, make_tiny_course, write_verdict

from autograder.grading import publishing

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
USER = "postgres" if os.getuid() == 0 else getpass.getuser()


def user_exists(name: str) -> bool:
    return name in {entry.pw_name for entry in pwd.getpwall()}


pytestmark = pytest.mark.skipif(
    not PROGRAMS or not user_exists(USER), reason="no PostgreSQL here: apt install postgresql, and a user to run it"
)


@pytest.fixture(scope="module")
def url():
    pytest.importorskip("psycopg", reason="the driver is missing: pip install psycopg[binary]")
    as_user = {"user": USER} if os.getuid() == 0 else {}
    programs = PROGRAMS[-1].parent
    folder = Path(tempfile.mkdtemp(prefix="sys602-"))  # other users cannot open pytest's folders
    shutil.chown(folder, USER)

    def run(program: str, *options: object) -> None:
        typed = [programs / program, *map(str, options)]
        subprocess.run(typed, check=True, capture_output=True, timeout=120, cwd="/", **as_user)

    try:
        run("initdb", "-D", folder / "data", "-A", "trust", "-U", USER, "--no-sync")
        options = f"-c listen_addresses='' -k {folder} -c fsync=off"
        run("pg_ctl", "-D", folder / "data", "-w", "-o", options, "-l", folder / "log", "start")
        try:
            run("createdb", "-h", folder, "-U", USER, "gradebook")
            yield f"postgresql://{USER}@/gradebook?host={folder}"
        finally:
            run("pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_verdicts_land_in_postgresql(url, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADEBOOK_URL", url)
    course = make_tiny_course(tmp_path)
    for student, points in (("ada", 3.0), ("bob", 0.0)):
        hand_in(course, student, {"week01-double": "def double(number):\n    return 2 * number\n"})
        verdict = {"points": points, "max": 3.0, "text": "Correct." if points else "Wrong.", "fault": False}
        write_verdict(course, student, {"week01.double": verdict})
    published = publishing.publish("week01", ["ada", "bob"], course)
    assert [one.problem for one in published] == ["", ""]
    with Gradebook(url) as gradebook:
        scores = {one["student"]: one["score"] for one in gradebook.submission_dicts(TINY_WEEK)}
    assert scores == {"ada": 3.0, "bob": 0.0}
    assert not (course / "autograder" / "gradebook.db").exists()
