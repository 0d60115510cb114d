"""A class is graded: right points for each, one file a student, the same points at a regrade, nobody lost."""

import csv
import json

import pytest
from typer.testing import CliRunner

from autograder import demo
from autograder.authoring import notebooks
from autograder.cli import app
from autograder.grading import grade, tables
from autograder.sandboxes import zygote

WEEK = demo.WEEK
NO_BILL = {"week01.naive-bill": "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 14, 14 * num_bytes\n"}


@pytest.fixture(scope="module")
def submitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submitted")
    demo.write_submission(folder, "right", {})
    demo.write_submission(folder, "bill", NO_BILL)
    (folder / "broken" / WEEK).mkdir(parents=True)
    (folder / "broken" / WEEK / f"{WEEK}.ipynb").write_text("{not json")
    (folder / "empty" / WEEK).mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def verdicts(submitted, tmp_path_factory, judge):
    root = tmp_path_factory.mktemp("target")
    results = {}
    for student in grade.students_in(submitted, WEEK):
        results[student] = grade.grade_one(student, WEEK, submitted, judge, seed=7)
        grade.write_verdicts(results[student], root)
    return root, results


def points(one):
    return sum(exercise["points"] for exercise in one["exercises"].values())


def test_everybody_gets_what_they_earned(verdicts):
    _, results = verdicts
    assert {name: points(one) for name, one in results.items()} == {
        "right": demo.POINTS,
        "bill": demo.POINTS - 1,
        "broken": 0,
        "empty": 0,
    }
    assert "num_ranks=3" in results["bill"]["exercises"]["week01.naive-bill"]["text"]
    assert "could not be read" in results["broken"]["exercises"]["week01.exchange"]["text"]
    assert "Not submitted" in results["empty"]["exercises"]["week01.exchange"]["text"]


def test_the_verdict_file_says_what_the_grade_rests_on(verdicts):
    root, results = verdicts
    kept = json.loads((root / "autograder" / "verdicts" / "right" / f"{WEEK}.json").read_text())
    assert kept == results["right"]
    assert kept["seed"] == 7 and kept["level"] == zygote.level() and set(kept["versions"]) >= {"torch", "nbgrader"}


def test_summary_and_csv(verdicts, tmp_path):
    _, results = verdicts
    rows = tables.summary(list(results.values()))
    assert rows[-1]["student"] == "right" and rows[-1]["points"] == rows[-1]["max"] == demo.POINTS
    tables.write_csv(list(results.values()), tmp_path / "grades.csv")
    with (tmp_path / "grades.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["points"] for line in lines] == [str(demo.POINTS - 1), "0.0", "0.0", str(demo.POINTS)]


def test_week_and_folder_that_do_not_exist(tmp_path):
    with pytest.raises(ValueError, match="week01_collectives"):
        grade.grade("week99", tmp_path)
    with pytest.raises(ValueError, match="is not a folder"):
        grade.grade(WEEK, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grade", "week99"], "week01_collectives"),
        (["grade", "week01", "--submitted", "/nonexistent"], "not a folder"),
        (["build", "week77"], "week01_collectives"),
        (["kill-matrix", "week77"], "week01"),
    ],
)
def test_the_command_answers_bad_input_with_a_sentence(arguments, words, monkeypatch):
    monkeypatch.setattr(zygote, "level", lambda: 3)  # else it would say that this machine cannot grade
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert words in answer.output and "Traceback" not in answer.output


def test_a_verdict_from_a_machine_without_isolation_is_not_published(verdicts, submitted, monkeypatch, tmp_path):
    _, results = verdicts
    monkeypatch.setattr(zygote, "level", lambda: 3)  # here; where it was judged it is lower
    monkeypatch.setattr(grade, "grade", lambda *_, then, **__: then([results["right"] | {"level": 1}]))
    monkeypatch.setattr("autograder.grading.publishing.enter", lambda *_: None)
    monkeypatch.setattr(tables, "write_class", lambda *_: None)
    monkeypatch.setattr("autograder.grading.reports.publish", lambda *_: pytest.fail("it was published"))
    answer = CliRunner().invoke(app, ["grade", "week01", "--submitted", str(submitted), "--student", "right"])
    assert answer.exit_code == 2 and "nothing is published: right" in answer.output


def test_course_is_what_the_sources_build():
    assert [week for week in notebooks.weeks() if notebooks.is_stale(week)] == []
