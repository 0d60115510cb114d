"""nbgrader's own commands in this course: refusals name our commands, and late days cost points."""

import csv
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from tiny_course import TINY_WEEK, hand_in, make_tiny_course, write_verdict
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import notebooks, solution
from autograder.authoring.course import load_config, nbgrader_programs
from autograder.grading import desk, publishing
from autograder.lms import exchange, nbgrader_plugins, points


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
