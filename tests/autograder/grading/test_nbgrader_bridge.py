"""nbgrader: points and feedback through its bridge, and its own buttons made safe."""

import csv
import json
import logging
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters.exporter import ResourcesDict
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import notebooks, solution
from autograder.authoring.course import load_config, nbgrader_programs
from autograder.grading import desk, nbgrader_bridge, people, publishing, verdict_files
from autograder.grading.roster import Student
from autograder.grading.verdict_files import Standing
from autograder.lms import exchange, nbgrader_plugins, points
from autograder.reading import ingest
from tests.autograder.tiny_course import TINY_SOURCE, TINY_WEEK, hand_in, make_tiny_course, write_verdict

# ---- Verdicts reach nbgrader's gradebook and the feedback page, and no notebook is executed on the way. --------------

TRAP = "def double(number):\n    return 2 * number\n\nopen('{mark}', 'w').close()"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A class of five, graded and published once: the result by name, and the course's folder."""
    course = make_tiny_course(tmp_path_factory.mktemp("course"))
    mark = course / "was_executed"
    answers = course / "solutions" / TINY_WEEK / "known" / "double.py"
    answers.parent.mkdir()
    answers.write_text("# %% right\nreturn 2 * number\n")
    hand_in(course, "ada", {"week01-double": TRAP.format(mark=mark), "week01-interview": "Less than twice."})
    write_verdict(
        course,
        "ada",
        {
            "week01.double": {"points": 99.0, "max": 3.0, "text": "Right, in <b>all</b> 6 cases."},
            "week01.triple": {"points": 0.5, "max": 2.0, "text": "Right for 2, wrong for 3."},
        },
    )
    hand_in(course, "bob", {"week01-double": "raise SystemExit"}, change=lambda notebook: notebook.cells.pop(3))
    write_verdict(course, "bob", {"week01.double": {"points": -1, "max": 3, "text": "SystemExit in line 1."}})
    broken = hand_in(course, "cy", {})
    broken.write_text("{")
    (broken.parent / "timestamp.txt").write_text("soon")
    names = ["ada", "bob", "cy", "nobody"]
    results = {result.student: result for result in publishing.publish("week01", names, course)}
    assert not mark.exists()
    return results, course


def scores(course: Path, student: str) -> dict:
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        notebook = gradebook.find_submission_notebook(TINY_WEEK, TINY_WEEK, student)
        return {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in notebook.grades}


def test_points_are_clipped_and_written_answers_wait(published):
    _, course = published
    assert scores(course, "ada") == {
        "week01-double-check": (3.0, False),
        "week01-triple-check": (0.5, False),
        "week01-interview": (None, True),
    }


def test_a_missing_verdict_or_a_deleted_check_is_zero_and_no_manual_work(published):
    _, course = published
    nothing = {
        "week01-double-check": (0.0, False),
        "week01-triple-check": (0.0, False),
        "week01-interview": (0.0, False),
    }
    assert scores(course, "bob") == nothing and scores(course, "cy") == nothing


def test_the_page_starts_with_the_table(published):
    page = published[0]["ada"].page.read_text()
    body = page[page.index("<body>") :]
    said = "Right, in &lt;b&gt;all&lt;/b&gt; 6 cases."
    in_order = ["<h1>Week 1</h1>", "<table>", ">double</a>", said, "Less than twice."]
    assert sorted(in_order, key=body.index) == in_order
    assert "3.5 of" in body and "7 points" in body
    assert "0.5 / 2" in body and "waiting for the instructor" in body and "partly right" in body
    assert "assert double(2) == 4" not in body  # checks are in the notebook


def test_known_answers_beside_the_source_reach_no_student(published):
    _, course = published
    given = [path for name in ("autograded", "feedback") for path in (course / "autograder" / name).rglob("*")]
    assert any(path.suffix == ".html" for path in given)
    assert not [path for path in given if "known" in path.name or path.suffix == ".py"]


@pytest.mark.parametrize(("of_double", "of_triple", "whole"), [(3.0, 2.0, 5.0), (1.0, 1.5, 2.5), (3.0, 0.0, 3.0)])
def test_optional_points_are_extra_credit(tmp_path, of_double, of_triple, whole):
    optional = TINY_SOURCE.replace('check="week01.triple" points=2', 'check="week01.triple" points=2 optional=true')
    course = make_tiny_course(tmp_path, optional)
    hand_in(course, "ada", {})
    found = {"week01.double": (of_double, 3.0, False), "week01.triple": (of_triple, 2.0, True)}
    exercises = {
        name: {"points": points, "max": most, "text": "So.", "optional": optional}
        for name, (points, most, optional) in found.items()
    }
    write_verdict(course, "ada", exercises)
    for _ in range(2):  # publishing again adds nothing
        (result,) = publishing.publish("week01", ["ada"], course)
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        submission = gradebook.find_submission(TINY_WEEK, "ada")
        assert (submission.score, submission.max_score) == (whole, 3 + 2)  # the core, and the written answer
    page = " ".join(result.page.read_text().split())
    assert f"{of_triple:g} / 2, optional" in page and f"{whole:g} of 5 points" in page
    assert (f"{of_triple:g} of these points are extra" in page) == (of_triple > 0)
    assert verdict_files.total({"exercises": exercises}) == (whole, 3.0)


def test_a_broken_or_missing_submission_does_not_stop_the_others(published):
    results, _ = published
    assert "could not be read: it is not a notebook" in results["cy"].page.read_text()
    assert results["nobody"].page is None and "Not submitted" in results["nobody"].problem
    assert "this exercise has no verdict" in results["bob"].page.read_text()


def test_the_instructors_score_appears_on_the_page(published):
    _, course = published
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        grade = gradebook.find_grade("week01-interview", TINY_WEEK, TINY_WEEK, "ada")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        gradebook.find_comment("week01-interview", TINY_WEEK, TINY_WEEK, "ada").manual_comment = "Say why."
        gradebook.db.commit()
    (again,) = publishing.publish("week01", ["ada"], course)
    page = again.page.read_text()
    assert "1.5 / 2" in page and "Say why." in page and "waiting for the instructor" not in page


def test_the_formgraders_button_also_restores_our_cells(published, monkeypatch):
    _, course = published
    monkeypatch.chdir(course)
    cell = nbformat.v4.new_code_cell("mine", metadata={"nbgrader": {"grade_id": "week01-double", "schema_version": 99}})
    names = ResourcesDict(nbgrader={"student": "ada", "assignment": TINY_WEEK})
    restored, _ = nbgrader_bridge.RestoreNotebook().preprocess(nbformat.v4.new_notebook(cells=[cell]), names)
    sources = {cell.id: cell.source for cell in restored.cells}
    assert sources["week01-double"] == "mine" and sources["week01-double-check"] == "assert double(2) == 4"


@pytest.mark.parametrize("points", [None, "3", float("nan"), float("inf"), [3]])
def test_points_that_are_no_number_are_zero(points):
    found = Standing({"e": {"points": points, "text": "x"}})
    assert nbgrader_bridge.verdict_of(found, "e", 3.0, TINY_WEEK) == (0.0, nbgrader_bridge.NO_VERDICT)


@pytest.mark.slow
def test_a_student_fetches_feedback_through_the_exchange(tmp_path):
    course = make_tiny_course(tmp_path / "course")
    folder = course / "course" / TINY_WEEK
    folder.mkdir(parents=True, exist_ok=True)
    answered = hand_in(course, "somebody", {"week01-double": "return 2 * number"})
    shutil.copy(answered, folder)
    shutil.rmtree(answered.parent.parent)
    shutil.copytree(folder, tmp_path / "home" / TINY_WEEK)

    def nbgrader(where, *typed):
        places = [f"--Exchange.root={tmp_path / 'exchange'}", f"--Exchange.cache={tmp_path / 'cache'}"]
        ours = ["--CourseDirectory.course_id=sys602", "--Exchange.path_includes_course=False"]
        command = [sys.executable, "-m", "nbgrader", *typed, TINY_WEEK, *places, *ours]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # nbgrader runs alembic
        environment, told = os.environ | {"PATH": path}, {"capture_output": True, "text": True}
        done = subprocess.run(command, cwd=where, env=environment, check=False, timeout=120, **told)
        assert done.returncode == 0, done.stderr

    exchange.make(tmp_path / "exchange", "sys602", os.getuid())
    nbgrader(course, "release_assignment")
    nbgrader(tmp_path / "home", "submit")
    nbgrader(course, "collect")
    (student,) = (path.name for path in (course / "autograder" / "submitted").iterdir())
    (result,) = publishing.publish("week01", [student], course)
    nbgrader(course, "release_feedback")
    nbgrader(tmp_path / "home", "fetch_feedback")
    (page,) = (tmp_path / "home" / TINY_WEEK / "feedback").rglob("*.html")
    assert page.read_text() == result.page.read_text()


def test_a_secret_that_nbgrader_has_not_made_is_replaced(published, tmp_path):
    _, course = published
    handed_in = hand_in(course, "dan", {})
    submitted = course / "autograder" / "submitted"
    submission = ingest.read_submission("dan", TINY_WEEK, submitted, course)
    for number, text in enumerate(["../../x", "a" * 127, "", "A" * 128]):
        (handed_in.parent / "submission_secret.txt").write_text(text)
        publishing._write_clean_copy(submission, course, submitted, tmp_path / str(number))
        copied = tmp_path / str(number) / "dan" / TINY_WEEK
        assert {path.name for path in copied.iterdir()} == {f"{TINY_WEEK}.ipynb", "submission_secret.txt"}, text
        assert (copied / "submission_secret.txt").read_text() != text
    shutil.rmtree(handed_in.parent.parent)


@pytest.mark.slow
def test_a_due_date_reaches_the_gradebook_and_stays(tmp_path):
    course = make_tiny_course(tmp_path)
    late = hand_in(course, "ada", {"week01-double": "pass"})
    (late.parent / "timestamp.txt").write_text("2026-11-20 16:00:05 UTC")
    due = datetime(2026, 11, 21, tzinfo=timezone(timedelta(hours=8)))
    for again in (due, None):  # a later run without a date
        (result,) = publishing.publish("week01", ["ada"], course, due=again)
        assert result.page is not None
        with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
            assert gradebook.find_assignment(TINY_WEEK).duedate == datetime(2026, 11, 20, 16)
            assert gradebook.find_submission(TINY_WEEK, "ada").total_seconds_late == 5


def test_the_gradebook_has_a_name_for_everybody_and_keeps_those_it_had(published, tmp_path):
    _, course = published
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        names = {one.id: (one.first_name, one.last_name) for one in gradebook.students}
        gradebook.update_or_create_student("bob", first_name="Robert", last_name="Roe")
    assert names == {name: ("", name) for name in ("ada", "bob", "cy")}
    people.enter_name(load_config(course).CourseDirectory.db_url, Student("bob"), tmp_path)
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        assert gradebook.find_student("bob").last_name == "Roe"
    facts = {"lms": "moodle", "id": "1", "name": "Jane van Doe", "late": False, "file": "f", "sha256": ""}
    (tmp_path / "collected.json").write_text(json.dumps(facts))
    assert people.name_of(Student("Jane-van-Doe"), tmp_path) == ("Jane van", "Doe")
    assert people.name_of(Student("Jane-van-Doe", name="Jane Roe"), tmp_path) == ("Jane", "Roe")


# ---- nbgrader's own commands in this course: refusals name our commands, and late days cost points. ------------------


@pytest.fixture
def course(tmp_path) -> Path:
    root = make_tiny_course(tmp_path / "course")
    hand_in(root, "ada", {"week01-double": "pass"})
    return root


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["generate_assignment", TINY_WEEK], "`autograder build WEEK`"),
        (["autograde", TINY_WEEK], "`autograder grade WEEK`"),
        (["autograde", "week02_other"], "`autograder collect --week WEEK`"),
        (["generate_feedback", TINY_WEEK], "`autograder grade WEEK`"),
        (["zip_collect", TINY_WEEK], "`autograder collect submissions.zip --week WEEK`"),
        (["zip_collect", TINY_WEEK, "--force"], "`autograder collect submissions.zip --week WEEK`"),
    ],
    ids=lambda one: "_".join(one) if isinstance(one, list) else "",
)
def test_a_refusal_names_our_command(course, typed, words):
    archive = course / "downloaded" / TINY_WEEK / "archive"
    archive.mkdir(parents=True)
    (archive / "x.ipynb").write_text("{}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HOME": str(course)}
    command = [sys.executable, "-m", "nbgrader", *typed]
    done = subprocess.run(
        command, cwd=course, env=environment, check=False, timeout=120, capture_output=True, text=True
    )
    assert done.returncode != 0 and words in done.stderr, done.stderr


def test_the_formgraders_buttons_name_our_command(course):
    config = load_config(course)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    assert "`autograder build WEEK`" in api.generate_assignment(TINY_WEEK)["log"]
    with nbgrader_programs():
        assert "`autograder grade WEEK`" in api.autograde(TINY_WEEK, "ada")["log"]


def test_other_messages_are_left_alone(caplog):
    nbgrader_plugins.name_our_commands()
    nbgrader_plugins.name_our_commands()
    with caplog.at_level(logging.INFO):
        logging.getLogger("any").error("No %s", "bread")
        logging.getLogger("any").info("No assignment with ID 'x' exists")
        logging.getLogger("any").error("No assignment with ID 'x' exists in the database")
    assert caplog.messages[:2] == ["No bread", "No assignment with ID 'x' exists"]
    assert caplog.messages[2].count("`autograder grade WEEK`") == 1


@pytest.mark.parametrize("safe", [True, False])
def test_the_formgraders_collect_is_ours(course, tmp_path, monkeypatch, safe):
    place, me = tmp_path / "exchange", os.geteuid()
    monkeypatch.setenv("NBGRADER_EXCHANGE", str(place))
    exchange.make(place, "sys602", me)
    name = exchange.account(me)
    for owner in (name, "other"):
        folder = place / "sys602" / "inbound" / f"{owner}+{TINY_WEEK}+2027-01-01 00:00:00 UTC+x"
        folder.mkdir()
        (folder / f"{TINY_WEEK}.ipynb").write_text("{}")
    if not safe:
        place.chmod(0o777)
    config = load_config(course)
    result = NbGraderAPI(CourseDirectory(config=config), config=config).collect(TINY_WEEK)
    found = {path.name for path in (course / "autograder" / "submitted").iterdir()}
    if safe:
        assert result["success"] and found == {"ada", name} and f"it belongs to {name}" in result["log"]
    else:
        assert not result["success"] and found == {"ada"} and "autograder exchange" in result["log"]


@pytest.mark.parametrize(
    ("seconds", "percent", "grace", "taken"),
    [
        (0, 10, 0, 0.0),
        (1, 10, 0, 1.0),
        (86_400, 10, 0, 1.0),
        (86_401, 10, 0, 2.0),
        (300, 10, 5, 0.0),
        (301, 10, 5, 1.0),
        (86_400 * 30, 10, 0, 10.0),
        (86_400, 0, 0, 0.0),
    ],
)
def test_late_days_cost_what_the_config_says(seconds, percent, grace, taken):
    plugin = nbgrader_plugins.PerDay(percent_per_day=float(percent), grace_minutes=float(grace))
    assert plugin.late_submission_penalty("ada", 10.0, seconds) == taken


def test_a_late_submission_has_its_penalty_in_what_the_lms_gets(course):
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text().replace("percent_per_day = 0.0", "percent_per_day = 50.0"))
    folder = course / "autograder" / "submitted" / "ada" / TINY_WEEK
    (folder / "timestamp.txt").write_text("2026-11-20 16:00:05 UTC")
    write_verdict(course, "ada", {"week01.double": {"points": 3.0, "max": 3.0, "text": "Correct.", "fault": False}})
    publishing.publish("week01", ["ada"], course, due=datetime(2026, 11, 20, 16, tzinfo=UTC))
    ((score,), _) = points.scores(TINY_WEEK, "canvas", folder.parent.parent, course)
    assert score.points == 1.5


def test_solutions_are_given_out_without_their_marks(course, tmp_path):
    path = solution.write("week01", tmp_path / "out" / "solved.ipynb", course)
    text = "\n".join(cell.source for cell in nbformat.read(path, 4).cells)
    assert text.count("the secret way") == 2 and "BEGIN SOLUTION" not in text and "END SOLUTION" not in text


def test_a_section_of_the_class(course, tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "ROOT", course)
    table = course / "autograder" / "students.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["student", "section"], ["ada", "A"], ["bob", "B"], ["cy", "A"]])
    submitted = course / "autograder" / "submitted"
    assert desk.chosen(TINY_WEEK, submitted, [], "A") == ["ada"]
    assert desk.chosen(TINY_WEEK, submitted, ["bob"], "A") == ["ada", "bob"]
    assert desk.chosen(TINY_WEEK, submitted, [], "") is None
    with pytest.raises(ValueError, match="has A, B"):
        desk.chosen(TINY_WEEK, submitted, [], "C")
    refused = CliRunner().invoke(cli.app, ["grade", "--section", "A"])
    assert refused.exit_code == 2 and "need a week" in refused.output
