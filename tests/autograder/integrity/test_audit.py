"""An audit shows what determined a verdict, and detects changes of the submission, the file or the checks."""

import json

import nbformat
import pytest
from typer.testing import CliRunner

from autograder import demo
from autograder.authoring.course import ROOT
from autograder.cli import app
from autograder.grading import grade, hashes
from autograder.integrity import reports
from autograder.integrity.audit import audit
from autograder.integrity.replay import replay
from autograder.judging import submission
from autograder.judging.judge import Judge, Verdict
from autograder.reading.dossier import open_dossier
from autograder.weeks import of_week

WEEK = demo.WEEK
BILL = "week01.naive-bill"
ONE_TOO_MANY = "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 14, 14 * num_bytes\n"


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """ada's submission with a verdict, in a course with the real weeks."""
    (tmp_path / "solutions").symlink_to(ROOT / "solutions")
    (tmp_path / "nbgrader_config.py").symlink_to(ROOT / "nbgrader_config.py")
    submitted = tmp_path / "submitted"
    demo.write_submission(submitted, "ada", {})
    dossier = open_dossier("ada", WEEK, submitted, tmp_path)
    judged = submission.Judged([Verdict(BILL, 1.0, 1.0, "Correct.")], 3, 0.5)
    path = grade.write_verdicts(grade.verdicts_of(dossier, judged, 7), tmp_path)
    return tmp_path, submitted, path


def problems(course, submitted):
    return [fact.problem for fact in audit("ada", "week01", submitted, course) if fact.problem]


def test_an_untouched_verdict_is_as_it_was(graded, capsys):
    course, submitted, path = graded
    facts = {fact.name: fact for fact in audit("ada", "week01", submitted, course)}
    assert problems(course, submitted) == []
    assert facts["seed of the inputs"].recorded == "7" and facts["isolation"].recorded.startswith("level 3")
    assert facts["verdict file"].recorded == hashes.file_hash(path) and len(facts["answers"].recorded) == 64
    assert {"sys602", "torch", "nbgrader", "checks"} <= set(facts)
    reports.print_audit("ada", list(facts.values()))
    assert "Nothing has changed since the submission was graded" in capsys.readouterr().out


def test_another_submission_on_disk_is_seen(graded):
    course, submitted, _ = graded
    file = submitted / "ada" / WEEK / f"{WEEK}.ipynb"
    file.write_text(file.read_text().replace("2 * (num_ranks - 1)", "3 * (num_ranks - 1)"))
    assert problems(course, submitted) == ["The submission on disk has changed since it was graded."]
    file.unlink()
    assert problems(course, submitted) == ["There is no submission on disk."]


def test_an_edited_verdict_file_is_seen(graded):
    course, submitted, path = graded
    path.write_text(path.read_text().replace('"points": 1.0', '"points": 0.0'))
    assert problems(course, submitted) == ["The verdict file was edited after it was written."]


def test_other_checks_and_versions_are_seen(graded, monkeypatch):
    course, submitted, _ = graded
    monkeypatch.setattr("autograder.integrity.audit.checks_hash", lambda week: "0" * 64)
    monkeypatch.setattr(grade, "versions", lambda: {"torch": "9.9"})
    found = problems(course, submitted)
    assert len(found) == 2 and "torch was" in found[0] and "checks" in found[1]


def test_the_hash_of_the_checks_covers_week_judge_and_shared_files(tmp_path, monkeypatch):
    for name in (
        "judging/judge.py",
        "checks/base.py",
        "weeks/week01_collectives/exchange.py",
        "weeks/week02_ddp/other.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(hashes, "GRADER", tmp_path)
    before = hashes.checks_hash(WEEK)
    (tmp_path / "weeks/week02_ddp/other.py").write_text("changed")
    assert hashes.checks_hash("week01") == before
    for name in ("judging/judge.py", "checks/base.py", "weeks/week01_collectives/exchange.py"):
        (tmp_path / name).write_text("changed")
        assert hashes.checks_hash(WEEK) != before
        (tmp_path / name).write_text(name)


@pytest.mark.parametrize("content", ["{", "[]", '{"student": "eve", "assignment": "x", "exercises": {}, "seed": 1}'])
def test_a_broken_or_foreign_verdict_is_a_sentence(graded, content):
    course, submitted, path = graded
    path.write_text(content)
    with pytest.raises(ValueError, match="grade ada again"):
        audit("ada", WEEK, submitted, course)
    with pytest.raises(ValueError, match="bob has no verdict"):
        audit("bob", WEEK, submitted, course)


def test_the_command_ends_with_a_sentence():
    answer = CliRunner().invoke(app, ["audit", "nobody", "--week", "week01"])
    assert answer.exit_code == 2 and "no verdict" in answer.output and "Traceback" not in answer.output


@pytest.mark.slow
def test_replay_reaches_the_same_points_and_names_those_that_changed(graded, capsys):
    course, submitted, path = graded
    file = submitted / "ada" / WEEK / f"{WEEK}.ipynb"
    notebook = nbformat.read(file, 4)
    notebook.cells = [cell for cell in notebook.cells if cell.id == "week01-naive-bill"]  # the others need ranks
    nbformat.write(notebook, file)
    with Judge() as judge:
        grade.write_verdicts(grade.grade_one("ada", WEEK, submitted, judge, seed=7, root=course), course)
        again = replay("ada", "week01", submitted, judge, course)
        assert again.is_same and again.notes == [] and len(again.changes) == len(of_week(WEEK))
        notebook.cells[0].source = ONE_TOO_MANY
        nbformat.write(notebook, file)
        other = replay("ada", "week01", submitted, judge, course)
    assert [(change.exercise, change.was, change.now) for change in other.changes if not change.is_same] == [
        (BILL, 1.0, 0.0)
    ]
    reports.print_replay("ada", other)
    shown = capsys.readouterr().out
    assert "has changed since it was graded" in shown and f"Points changed: {BILL}." in shown
    assert json.loads(path.read_text())["exercises"][BILL]["points"] == 1.0
