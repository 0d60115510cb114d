"""The whole grading run, from submissions to gradebook and feedback pages, as a user who is not root.

If run as root, the test becomes such a user: it copies the course to a folder that the user owns and drops privileges.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder import demo
from autograder.authoring.course import copy_course, load_config
from tests import levels
from tests.another_user import USER, as_the_user

WEEK = demo.WEEK
PARTS = ("autograder", "labs/shardlab", "solutions", "nbgrader_config.py")
CHEAT = "import sys\n\ndef exchange(tensor, *, group):\n    sys.displayhook('x')\n    return tensor\n"

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


@pytest.fixture(scope="module")
def course() -> Iterator[Path]:
    """A course owned by the user, with an honest and a cheating submission; pytest's own folders belong to root."""
    with tempfile.TemporaryDirectory(prefix="sys602-ordinary-", ignore_cleanup_errors=True) as folder:
        yield lay_out(Path(folder))


def lay_out(root: Path) -> Path:
    """Copy the course to a folder, add submissions, and give everything to the user."""
    copy_course(root, PARTS)
    submitted = root / "autograder" / "submitted"
    demo.write_submission(submitted, "honest", {})
    demo.write_submission(submitted, "cheat", {"week01.exchange": CHEAT})
    (root / "home").mkdir()
    for folder, _, files in os.walk(root):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            os.chown(name, USER, USER if os.getuid() == 0 else -1)
    return root


def run(course: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the course's copy as the user."""
    environment = {
        "HOME": str(course / "home"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(course / "labs"), str(course)]),
        "LANG": "C.UTF-8",
    }
    words = as_the_user([sys.executable, *command])
    return subprocess.run(words, env=environment, cwd=course, capture_output=True, text=True, timeout=500, check=False)


@pytest.fixture(scope="module")
def level(course: Path) -> int:
    """Level 3 of isolation, for the user; skipped if the test cannot become another user."""
    answer = run(
        course, "-c", "import os, autograder.sandboxes.zygote as s; print(os.getuid(), s.level(), s.why_not(3))"
    )
    if answer.returncode != 0 and any(word in answer.stderr for word in ("unshare:", "setpriv:", "mount:")):
        pytest.skip(f"nobody can become another user here: {answer.stderr.strip()}")
    assert answer.returncode == 0, answer.stderr
    user, found, why_not = answer.stdout.split(maxsplit=2)
    assert int(user) == USER
    levels.go_on(3, why_not.strip() if int(found) < 3 else None)
    return int(found)


def test_a_class_is_graded_and_published_by_an_ordinary_user(course: Path, level: int):
    answer = run(course, "-m", "autograder.cli", "grade", "week01")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    kept = {one: json.loads((verdicts(course) / one / f"{WEEK}.json").read_text()) for one in ("honest", "cheat")}
    assert [one["level"] for one in kept.values()] == [3, 3]
    points = {name: sum(e["points"] for e in one["exercises"].values()) for name, one in kept.items()}
    assert (
        points == {"honest": demo.POINTS, "cheat": demo.POINTS - 2}
        and kept["cheat"]["exercises"]["week01.exchange"]["points"] == 0
    )
    with (verdicts(course) / f"{WEEK}.csv").open() as file:
        assert {row["student"]: float(row["points"]) for row in csv.DictReader(file)} == points
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        assert {name: gradebook.find_submission(WEEK, name).score for name in points} == points
    pages = [course / "autograder" / "feedback" / name / WEEK / f"{WEEK}.html" for name in points]
    assert all("week01" in page.read_text() for page in pages)


def verdicts(course: Path) -> Path:
    return course / "autograder" / "verdicts"
