"""Grading as ordinary users: one account, and three that do not trust each other."""

import csv
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder import demo
from autograder.authoring import notebooks
from autograder.authoring.course import copy_course, load_config
from tests import levels
from tests.attacks.another_user import USER, as_the_user

# ---- A week through the exchange with three Linux accounts, and one student's attacks on the others. -----------------

WEEK = "week00_start"
PARTS = ("autograder", "labs/shardlab", "solutions", "course", "nbgrader_config.py")
TAG = f"sys602-{os.getpid() % 10_000}"
STUDENTS_CONFIG = Path(__file__).parents[3] / "autograder" / "classroom" / "nbgrader_config.py"


@dataclass(frozen=True)
class Account:
    """A user of this machine with a home folder, whose environment contains only the exchange's address."""

    name: str
    home: Path
    exchange: Path

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program as this user."""
        user = pwd.getpwnam(self.name)
        place = folder or self.home
        environment = {
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "NBGRADER_EXCHANGE": str(self.exchange),
            "PYTHONPATH": os.pathsep.join([f"{place}/labs", str(place)]) if (place / "autograder").is_dir() else "",
        }
        words = as_the_user(["env", "-C", str(place), *command], user.pw_uid, user.pw_gid)
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=400, check=False)

    def nbgrader(self, *typed: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "nbgrader", *typed, folder=folder)

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.run("sh", "-ec", script)


@dataclass(frozen=True)
class Class:
    """An instructor, whose home is the course, and two students."""

    instructor: Account
    students: tuple[Account, Account]
    exchange: Path

    @property
    def inbound(self) -> Path:
        return self.exchange / "sys602" / "inbound"

    def autograder(self, *typed: str) -> subprocess.CompletedProcess[str]:
        return self.instructor.run(sys.executable, "-m", "autograder.cli", *typed, folder=self.instructor.home)

    def collected(self, student: Account) -> Path:
        return self.instructor.home / "autograder" / "submitted" / student.name / WEEK


@pytest.fixture(scope="module")
def three() -> Iterator[Class]:
    """Three accounts, the course in the instructor's home, the week released and submitted by both students."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("useradd", "userdel", "setpriv"))):
        pytest.skip("accounts need root, useradd and setpriv")
    folder = Path(tempfile.mkdtemp(prefix="sys602-class-"))
    names = [f"{TAG}-{role}" for role in ("instructor", "ada", "bob")]
    try:
        folder.chmod(0o755)
        for name in names:
            add = ["useradd", "--home-dir", str(folder / name), "--create-home", "--shell", "/bin/bash", name]
            subprocess.run(add, check=True, capture_output=True)
            (folder / name).chmod(0o700)
        accounts = [Account(name, folder / name, folder / "exchange") for name in names]
        made = Class(accounts[0], (accounts[1], accounts[2]), folder / "exchange")
        lay_out(made)
        yield made
    finally:
        for name in names:
            subprocess.run(["userdel", name], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def lay_out(three: Class) -> None:
    """Release the week, and let both students fetch, answer and submit."""
    copy_course(three.instructor.home, PARTS)
    give(three.instructor, three.instructor.home)
    three.exchange.mkdir()
    three.exchange.chmod(0o777)  # as found in a real class: owned by root, without the sticky bit
    asked = [sys.executable, "-m", "autograder.cli", "exchange", "--owner", three.instructor.name]
    environment = os.environ | {"NBGRADER_EXCHANGE": str(three.exchange)}
    done(subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=120, check=False))
    done(three.instructor.nbgrader("release_assignment", WEEK, folder=three.instructor.home))
    for student, answer in zip(three.students, ("full", "none"), strict=True):
        (student.home / ".jupyter").mkdir()
        shutil.copy(STUDENTS_CONFIG, student.home / ".jupyter")
        give(student, student.home)
        done(student.nbgrader("fetch_assignment", WEEK))
        if answer == "full":
            write_answers(student.home / WEEK / f"{WEEK}.ipynb")
        done(student.nbgrader("submit", WEEK))


def give(account: Account, folder: Path) -> None:
    user = pwd.getpwnam(account.name)
    for place, _, files in os.walk(folder):
        for name in (place, *(os.path.join(place, file) for file in files)):
            os.chown(name, user.pw_uid, user.pw_gid, follow_symlinks=False)


def write_answers(path: Path) -> None:
    """Fill in the course's own solutions."""
    solved = {cell.id: cell.source for cell in notebooks.read_source(WEEK).cells}
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = solved[cell.id]
    nbformat.write(notebook, path)


def done(process: subprocess.CompletedProcess[str]) -> str:
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout + process.stderr


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_the_exchange_of_a_class_cannot_be_swapped(three):
    """Hole 4: a student moves the course's folder away and creates another one that everyone can read."""
    swap = f"mv {three.exchange}/sys602 {three.exchange}/.old && mkdir -p {three.exchange}/sys602/inbound"
    assert three.students[0].shell(swap).returncode != 0
    for attempt in (
        f"mv {three.inbound} {three.inbound}.old",
        f"rmdir {three.inbound}",
        f"chmod 777 {three.exchange}/sys602",
        f"ls {three.inbound}",
        f"touch {three.exchange}/sys602/outbound/x",
        f"ls {three.exchange}/sys602/feedback",
    ):
        assert three.students[0].shell(attempt).returncode != 0, attempt
    (theirs,) = (path.name for path in three.inbound.iterdir() if path.name.startswith(three.students[1].name))
    assert three.students[0].shell(f"mv {three.inbound}/{theirs} /tmp/x-{TAG}").returncode != 0


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_links_and_other_names_bring_nothing_into_the_class(three):
    """Holes 2 and 3, with everything in place for the first collect."""
    ada, bob = three.students
    target = three.collected(bob) / f"{WEEK}.ipynb"
    solution = three.instructor.home / "solutions" / WEEK / f"{WEEK}.py"
    late = "2027-01-01 00:00:00.000000 UTC"
    for number, aim in enumerate((target, solution, "/etc/passwd")):
        trap = f"{three.inbound}/{ada.name}+{WEEK}+{late}+{number}"
        done(ada.shell(f"mkdir '{trap}' && cd '{trap}' && ln -s {aim} {WEEK}.ipynb && echo '{late}' > timestamp.txt"))
    done(ada.shell(f"ln -s {target.parent} '{three.inbound}/{ada.name}+{WEEK}+{late}+folder'"))
    forged = f"{three.inbound}/{bob.name}+{WEEK}+{late}+x"
    done(
        ada.shell(f"mkdir '{forged}' && cp {WEEK}/{WEEK}.ipynb '{forged}' && echo '{late}' > '{forged}/timestamp.txt'")
    )

    said = done(three.autograder("collect", "--week", WEEK))
    flat = " ".join(said.replace("│", " ").split())
    assert "2 collected" in flat and "5 left out" in flat, said
    for student in three.students:
        own = (student.home / WEEK / f"{WEEK}.ipynb").read_bytes()
        assert (three.collected(student) / f"{WEEK}.ipynb").read_bytes() == own
        assert "2027" not in (three.collected(student) / "timestamp.txt").read_text()


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_a_grade_and_its_page_reach_the_student_alone(three):
    asked = "import autograder.sandboxes.zygote as s; print(s.level(), s.why_not(3))"
    answer = three.instructor.run(sys.executable, "-c", asked, folder=three.instructor.home)
    found, why_not = done(answer).split(maxsplit=1)
    levels.go_on(3, why_not.strip() if int(found) < 3 else None)
    ada, bob = three.students
    done(three.autograder("collect", "--week", WEEK))
    done(three.autograder("grade", WEEK))
    points = {}
    for student in three.students:
        path = three.instructor.home / "autograder" / "verdicts" / student.name / f"{WEEK}.json"
        points[student] = sum(one["points"] for one in json.loads(path.read_text())["exercises"].values())
    assert points[ada] > points[bob] == 0
    done(three.instructor.nbgrader("release_feedback", WEEK, folder=three.instructor.home))
    pages = {}
    for student in three.students:
        done(student.nbgrader("fetch_feedback", WEEK))
        (page,) = (student.home / WEEK / "feedback").rglob("*.html")
        pages[student] = page.read_text()
    assert pages[ada] != pages[bob]
    for student in three.students:
        original = three.instructor.home / "autograder" / "feedback" / student.name / WEEK / f"{WEEK}.html"
        assert pages[student] == original.read_text()
    done(three.autograder("grade"))  # nothing has changed


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_what_belongs_to_the_instructor_is_closed_to_students(three):
    for path in ("solutions", "autograder/submitted", "autograder/verdicts", "autograder/gradebook.db"):
        assert three.students[0].shell(f"ls {three.instructor.home}/{path}").returncode != 0


# ---- The whole grading run, from submissions to gradebook and feedback pages, as a user who is not root. If run as
# root, the test becomes such a user: it copies the course to a folder that the user owns and drops privileges.

WEEK_ORDINARY_USER = demo.WEEK
PARTS_ORDINARY_USER = ("autograder", "labs/shardlab", "solutions", "nbgrader_config.py")
CHEAT = "import sys\n\ndef exchange(tensor, *, group):\n    sys.displayhook('x')\n    return tensor\n"


@pytest.fixture(scope="module")
def course() -> Iterator[Path]:
    """A course owned by the user, with an honest and a cheating submission; pytest's own folders belong to root."""
    with tempfile.TemporaryDirectory(prefix="sys602-ordinary-", ignore_cleanup_errors=True) as folder:
        yield lay_out_ordinary_user(Path(folder))


def lay_out_ordinary_user(root: Path) -> Path:
    """Copy the course to a folder, add submissions, and give everything to the user."""
    copy_course(root, PARTS_ORDINARY_USER)
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


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_class_is_graded_and_published_by_an_ordinary_user(course: Path, level: int):
    answer = run(course, "-m", "autograder.cli", "grade", "week01")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    kept = {
        one: json.loads((verdicts(course) / one / f"{WEEK_ORDINARY_USER}.json").read_text())
        for one in ("honest", "cheat")
    }
    assert [one["level"] for one in kept.values()] == [3, 3]
    points = {name: sum(e["points"] for e in one["exercises"].values()) for name, one in kept.items()}
    assert (
        points == {"honest": demo.POINTS, "cheat": demo.POINTS - 2}
        and kept["cheat"]["exercises"]["week01.exchange"]["points"] == 0
    )
    with (verdicts(course) / f"{WEEK_ORDINARY_USER}.csv").open() as file:
        assert {row["student"]: float(row["points"]) for row in csv.DictReader(file)} == points
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        assert {name: gradebook.find_submission(WEEK_ORDINARY_USER, name).score for name in points} == points
    pages = [
        course / "autograder" / "feedback" / name / WEEK_ORDINARY_USER / f"{WEEK_ORDINARY_USER}.html" for name in points
    ]
    assert all("week01" in page.read_text() for page in pages)


def verdicts(course: Path) -> Path:
    return course / "autograder" / "verdicts"
