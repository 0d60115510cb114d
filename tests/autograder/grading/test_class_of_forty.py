""""""

import csv
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.authoring import notebooks
from autograder.authoring.course import copy_course, load_config
from autograder.demo import POINTS, WEEK

# ---- A class of forty, from the release of a week to the tables of two LMSs, using only the commands in
# docs/teaching.md. They submit through nbgrader's exchange, a Canvas download and their own repositories. The one step
# that the instructor does in a browser, grading written answers, is done on the gradebook as the formgrader does it.
# One account submits for everyone, so nbgrader gets the student's name from a setting; then root gives each folder to
# its student.

FIRST_ACCOUNT = 70_000
NOTEBOOK = f"{WEEK}.ipynb"
DUE = "2026-11-20T16:00+00:00"
ON_TIME, LATE = "2026-11-20T15:59:00+00:00", "2026-11-20T16:00:05+00:00"
BY_EXCHANGE = [f"exchange{number:02}" for number in range(14)]
BY_CANVAS = [f"canvas{number:02}" for number in range(13)]
BY_GIT = [f"git{number:02}" for number in range(13)]
FOLDERS = [*BY_EXCHANGE, *(f"{name}-{1000 + number}" for number, name in enumerate(BY_CANVAS)), *BY_GIT]
MARKED = "week01-interview"
WRONG = "def exchange(tensor, *, group):\n    return tensor.clone()\n"
OWN_HALF = ("week01.naive-bill", "week01.same-order", "week01.reading")  # what students who got half way answered


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """The instructor's copy of the course, and functions that run commands in it."""
    top = tmp_path_factory.mktemp("class")
    root = copy_course(top / "course")

    def run(command: str, *, where: Path = root, user: str = "instructor") -> str:
        (top / user).mkdir(exist_ok=True)
        program, *words = command.split()
        environment = {
            "HOME": str(top / user),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # nbgrader calls alembic
            "PYTHONPATH": os.pathsep.join([str(root / "labs"), str(root)]),
            "NBGRADER_EXCHANGE": str(top / "exchange"),
            "HOMES": str(top / "homes"),  # maps user ids to account names
            "LANG": "C.UTF-8",
        }
        module = {"autograder": "autograder.cli", "nbgrader": "nbgrader"}[program]
        typed = [sys.executable, "-m", module, *words]
        done = subprocess.run(
            typed, env=environment, cwd=where, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return SimpleNamespace(top=top, root=root, run=run)


def answers(desk: Any, student: str) -> bytes:
    """Return a student's notebook: every fourth has one wrong answer, every second of the others is half done."""
    number = [*BY_EXCHANGE, *BY_CANVAS, *BY_GIT].index(student)
    given = nbformat.read(desk.root / "course" / WEEK / NOTEBOOK, 4)
    source = {cell.id: cell.source for cell in notebooks.read_source(WEEK).cells}
    for cell in given.cells:
        if not cell.metadata.get("nbgrader", {}).get("solution"):
            continue
        exercise = notebooks.exercise_id(cell.metadata["nbgrader"]["grade_id"])
        if exercise == "week01.exchange" and number % 4 == 0:
            cell.source = WRONG
        elif kind_of(number) != "half" or exercise in OWN_HALF or cell.id == MARKED:
            cell.source = source[cell.id]
    return nbformat.writes(given).encode()


def kind_of(number: int) -> str:
    """Return the kind of this student's submission: "wrong", "half" or "right"."""
    return "wrong" if number % 4 == 0 else "half" if number % 2 else "right"


def automatic_points(number: int) -> float:
    return {"wrong": POINTS - 2, "half": 3.0, "right": POINTS}[kind_of(number)]


def hand_in_through_the_exchange(desk: Any) -> None:
    def one(student: str) -> None:
        folder = desk.top / student / WEEK
        folder.mkdir(parents=True)
        (folder / NOTEBOOK).write_bytes(answers(desk, student))
        desk.run(f"nbgrader submit {WEEK} {as_student(desk, student)}", where=desk.top / student, user=student)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, BY_EXCHANGE))
    for number, student in enumerate(BY_EXCHANGE, FIRST_ACCOUNT):
        home = desk.top / "homes" / student
        home.mkdir(parents=True)
        (submitted,) = (desk.top / "exchange").glob(f"*/inbound/{student}+*")
        for path in (home, submitted, *submitted.rglob("*")):
            os.chown(path, number, -1)


def as_student(desk: Any, student: str) -> str:
    """Return the settings of a student's server in a class."""
    exchange = f"--Exchange.root={desk.top / 'exchange'} --Exchange.path_includes_course=False"
    return f"--course=sys602 --CourseDirectory.student_id={student} {exchange}"


def hand_in_to_canvas(desk: Any) -> Path:
    path = desk.top / "submissions.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, student in enumerate(BY_CANVAS):
            late = "LATE_" if number == 1 else ""
            archive.writestr(f"{student}_{late}{1000 + number}_{2000 + number}_{NOTEBOOK}", answers(desk, student))
    return path


def push(desk: Any, student: str, data: bytes, when: str) -> Path:
    """Commit to the student's repository."""
    repository = desk.top / "repositories" / student
    who = {f"GIT_{role}_{what}": student for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=week 1"]):
        repository.mkdir(parents=True, exist_ok=True)
        (repository / NOTEBOOK).write_bytes(data)
        environment = os.environ | who | {"GIT_COMMITTER_DATE": when}
        subprocess.run(["git", "-C", str(repository), *words], env=environment, check=True, capture_output=True)
    return repository


def hand_in_by_git(desk: Any) -> Path:
    path = desk.top / "repositories.csv"
    rows = [
        f"{student},{push(desk, student, answers(desk, student), LATE if number == 2 else ON_TIME)}"
        for number, student in enumerate(BY_GIT)
    ]
    path.write_text("\n".join(["student,repository", *rows]))
    return path


def mark(desk: Any, student: str, points: float, comment: str) -> None:
    """Do what the formgrader does when the instructor types points and a comment below a written answer."""
    with Gradebook(load_config(desk.root).CourseDirectory.db_url) as gradebook:
        grade: Any = gradebook.find_grade(MARKED, WEEK, WEEK, student)
        grade.manual_score, grade.needs_manual_grade = points, False
        said: Any = gradebook.find_comment(MARKED, WEEK, WEEK, student)
        said.manual_comment = comment
        gradebook.db.commit()


def scores(desk: Any) -> dict[str, float]:
    with Gradebook(load_config(desk.root).CourseDirectory.db_url) as gradebook:
        return {one.student.id: one.score for one in gradebook.find_assignment(WEEK).submissions}


def seconds_late(desk: Any) -> dict[str, float]:
    with Gradebook(load_config(desk.root).CourseDirectory.db_url) as gradebook:
        found: list[Any] = gradebook.find_assignment(WEEK).submissions
        return {one.student.id: one.total_seconds_late for one in found if one.total_seconds_late}


def canvas_points(desk: Any, template: Path) -> dict[str, float]:
    """Return the points by student in the table that Canvas imports."""
    out = desk.root / "canvas-points.csv"
    desk.run(f"autograder export {out} --week week01 --lms canvas --template {template}")
    with out.open(encoding="utf-8") as file:
        return {row["SIS Login ID"]: float(row["week01 (7)"]) for row in csv.DictReader(file) if row["ID"]}


def moodle_points(desk: Any, template: Path) -> dict[str, float]:
    out = desk.root / "moodle-points.csv"
    desk.run(f"autograder export {out} --week week01 --lms moodle --template {template}")
    with out.open(encoding="utf-8") as file:
        return {row["ID number"]: float(row["Grade"]) for row in csv.DictReader(file)}


def tables_of_the_lms(desk: Any) -> tuple[Path, Path]:
    """Write what Canvas and Moodle export before anybody has points."""
    canvas, moodle = desk.top / "gradebook.csv", desk.top / "worksheet.csv"
    ids = [2000 + number if "-" not in name else int(name.split("-")[1]) for number, name in enumerate(FOLDERS)]
    rows = [f'"{name}",{number},,{name},A,' for name, number in zip(FOLDERS, ids, strict=True)]
    top = ["Student,ID,SIS User ID,SIS Login ID,Section,week01 (7)", f"    Points Possible,,,,,{POINTS + 2:g}"]
    canvas.write_text("\n".join([*top, *rows]))
    header = "Identifier,Full name,ID number,Status,Grade,Maximum Grade,Last modified (grade)"
    rows = [
        f"Participant {number},Somebody,{name},Submitted,,{POINTS + 2:.2f},-" for number, name in enumerate(FOLDERS)
    ]
    moodle.write_text("\n".join([header, *rows]))
    return canvas, moodle


@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to several accounts")
def test_from_the_release_to_the_tables_of_the_lms(desk):
    desk.run("autograder exchange")
    desk.run(f"nbgrader release_assignment {WEEK}")
    hand_in_through_the_exchange(desk)
    archive, table = hand_in_to_canvas(desk), hand_in_by_git(desk)

    desk.run(f"nbgrader collect {WEEK}")
    assert "13 collected" in desk.run(f"autograder collect {archive} --week week01 --due {DUE}")
    assert "13 collected" in desk.run(f"autograder collect {table} --week week01")
    submitted = desk.root / "autograder" / "submitted"
    assert {path.name for path in submitted.iterdir()} == set(FOLDERS)

    said = desk.run(f"autograder grade week01 --due {DUE}")
    expected = {name: automatic_points(number) for number, name in enumerate(FOLDERS)}
    assert scores(desk) == expected, said
    assert "40 feedback pages" in said
    after = (datetime.now(UTC) - datetime.fromisoformat(DUE)).total_seconds()
    late = seconds_late(desk)
    # Students of the exchange submit now; the clock decides whether that is late.
    assert {name: late[name] for name in late if name not in BY_EXCHANGE} == {"canvas01-1001": 1, "git02": 5}
    assert all((name in late) == (after > 0) for name in BY_EXCHANGE)

    for name in FOLDERS:
        mark(desk, name, 1.5, f"Well seen, {name}.")
    desk.run(f"nbgrader generate_feedback {WEEK} --force")
    desk.run(f"nbgrader release_feedback {WEEK}")
    home = desk.top / "exchange03"
    desk.run(f"nbgrader fetch_feedback {WEEK} {as_student(desk, 'exchange03')}", where=home, user="exchange03")
    (page,) = (home / WEEK / "feedback").rglob("*.html")
    assert "Well seen, exchange03." in page.read_text()

    canvas, moodle = tables_of_the_lms(desk)
    expected = {name: points + 1.5 for name, points in expected.items()}
    assert canvas_points(desk, canvas) == expected
    assert moodle_points(desk, moodle) == expected

    # One of them submits again; the written answer keeps its grade, and nothing changes for the others.
    push(desk, "git01", answers(desk, "exchange02"), ON_TIME)
    assert "1 replaced" in desk.run(f"autograder collect {table} --week week01 --replace")
    desk.run("autograder grade week01 --student git01")
    assert expected["git01"] == POINTS - 2 + 1.5
    expected["git01"] = POINTS + 1.5
    assert canvas_points(desk, canvas) == expected
    assert moodle_points(desk, moodle) == expected
