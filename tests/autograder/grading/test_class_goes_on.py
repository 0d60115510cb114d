"""Grading a class continues whatever one submission does; the demonstration shows it."""

import csv
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed import KilledWorker
from rich.console import Console

from autograder import demo, weeks
from autograder.authoring.course import ROOT
from autograder.grading import grade, publishing, reports, tables
from autograder.judging import cluster, exhibits, submission
from autograder.judging.judge import Judge, Verdict
from autograder.sandboxes.zygote import SandboxLost

# ---- A failure while one submission is read, judged or written becomes its own verdict; the class continues. ---------

WEEK = demo.WEEK
OF_WEEK = weeks.of_week(WEEK)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A separate course root with three submissions, and a judge that gives full points at once."""
    for name in ("nbgrader_config.py", "solutions/week01_collectives", "autograder/templates"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tmp_path / name)
    for student in ("a", "b", "c"):
        demo.write_submission(tmp_path / "submitted", student, {})
    monkeypatch.setattr(cluster, "judge_dossier", full_points)
    return tmp_path


def full_points(dossier, judge, seed):
    right = [Verdict(one.exercise, float(one.points), one.points, "Correct.") for one in OF_WEEK]
    return submission.Judged(right, 3, 0.1)


def graded(course, **options):
    return {one["student"]: one for one in grade.grade(WEEK, course / "submitted", root=course, **options)}


def points(verdicts):
    return sum(exercise["points"] for exercise in verdicts["exercises"].values())


def failing(function, error, *, when=lambda: True):
    """A function that raises for student b, and works normally for the others."""

    def changed(*args, **kwargs):
        if any(student_of(arg) == "b" for arg in args) and when():
            raise error
        return function(*args, **kwargs)

    return changed


def student_of(arg):
    """Return the student named by an argument: a dossier, verdicts, a file in their folder, or the name itself."""
    if isinstance(arg, dict):
        return arg.get("student")
    return arg.parent.name if isinstance(arg, Path) else getattr(arg, "student", arg)


def once(function, error):
    calls = []
    return failing(function, error, when=lambda: not calls and not calls.append(1))


STAGES = {
    "read": (grade, "open_dossier", "could not be read (UnicodeEncodeError"),
    "judged": (cluster, "judge_dossier", "could not be judged (UnicodeEncodeError"),
    "described": (grade, "verdicts_of", "could not be written down"),
    "exhibits": (exhibits, "write", "could not be written down"),
    "verdicts": (grade, "write_verdicts", "could not be written down"),
}
ERROR = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")


@pytest.mark.parametrize("stage", STAGES)
def test_a_failure_at_any_stage_is_one_students_own(course, monkeypatch, stage):
    where, name, words = STAGES[stage]
    always = failing if stage == "judged" else once  # a worker retries, and files are written twice
    monkeypatch.setattr(where, name, always(getattr(where, name), ERROR))
    results = graded(course)
    assert {name: points(one) for name, one in results.items()} == {"a": demo.POINTS, "b": 0, "c": demo.POINTS}
    for exercise in results["b"]["exercises"].values():
        assert words in exercise["text"] and exercise["look"] and not exercise["fault"]
    for student in "abc":
        file = course / "autograder" / "verdicts" / student / f"{WEEK}.json"
        assert json.loads(file.read_text()) == results[student]


def test_a_disk_that_cannot_be_written_to_is_the_machines_fault(course):
    (course / "autograder" / "verdicts").mkdir()
    (course / "autograder" / "verdicts" / "b").write_text("a file is in the way")
    results = graded(course)
    assert points(results["a"]) == points(results["c"]) == demo.POINTS
    assert all(exercise["fault"] for exercise in results["b"]["exercises"].values())


class LostFuture:
    def result(self):
        raise KilledWorker("b", SimpleNamespace(address="tcp://10.0.0.2:1"), 3)


def test_a_submission_that_no_worker_finished_is_the_machines_fault():
    judged = cluster._result(grade._nothing_of("b", WEEK), LostFuture())
    assert all(one.fault and one.points == 0 and "KilledWorker" in one.text for one in judged.verdicts)


def test_a_worker_that_dies_while_it_is_told_something_is_told_again(monkeypatch):
    monkeypatch.setattr(cluster, "PAUSE", 0.0)
    deaths = [OSError("worker 1 is gone"), OSError("worker 2 is gone")]
    told = []

    def register(plugin):
        if deaths:
            raise deaths.pop()
        told.append(plugin)

    cluster._patiently(register, "plugin")
    assert told == ["plugin"] and not deaths
    deaths = [OSError("nobody answers")] * cluster.ATTEMPTS
    with pytest.raises(OSError, match="nobody"):
        cluster._patiently(register, "plugin")


@pytest.mark.slow
def test_a_failure_while_publishing_costs_one_page(course, monkeypatch):
    graded(course)
    real = publishing.ingest.read_submission
    monkeypatch.setattr(publishing.ingest, "read_submission", failing(real, ERROR))
    published = {one.student: one for one in publishing.publish(WEEK, ["a", "b", "c"], course, course / "submitted")}
    assert published["a"].page.is_file() and published["c"].page.is_file()
    assert published["b"].page is None and "surrogates" in published["b"].problem


def table_of(course):
    with (course / f"{WEEK}.csv").open(newline="") as file:
        return {row["student"]: row["points"] for row in csv.DictReader(file)}


def test_the_table_of_a_class_keeps_everybody_when_one_is_graded_again(course, monkeypatch):
    tables.write_class(WEEK, list(graded(course).values()), course / f"{WEEK}.csv", course)
    monkeypatch.setattr(
        cluster, "judge_dossier", lambda *_: submission.refused(grade._nothing_of("b", WEEK), "judged", ERROR)
    )
    tables.write_class(WEEK, list(graded(course, students=["b"]).values()), course / f"{WEEK}.csv", course)
    assert table_of(course) == {"a": str(demo.POINTS), "b": "0.0", "c": str(demo.POINTS)}


def test_one_student_graded_again_does_not_end_the_run_of_a_class(course, monkeypatch):
    def killed_at_c(rest, seed, **_):
        for one in rest:
            if one.student == "c":
                raise KeyboardInterrupt
            yield one, full_points(one, None, seed)

    monkeypatch.setattr(grade, "judge_all", killed_at_c)
    with pytest.raises(KeyboardInterrupt):
        graded(course)
    graded(course, students=["a"])
    assert (course / "autograder" / "verdicts" / f".run-{WEEK}.json").exists()
    judged = []

    def counted(rest, seed, **_):
        judged.extend(one.student for one in rest)
        return ((one, full_points(one, None, seed)) for one in rest)

    monkeypatch.setattr(grade, "judge_all", counted)
    results = graded(course)
    assert judged == ["c"] and len({one["seed"] for one in results.values()}) == 1
    assert not list(course.glob("autograder/verdicts/.run-*"))


STRANGE = [b".lock", b"\xff\xfe", b"a\x1b[2Jb", b"new\nline", b" b", b"long" * 40, f"{WEEK}.csv".encode()]


def test_folders_that_are_no_students_are_named_and_not_graded(course, monkeypatch):
    for name in STRANGE:
        os.makedirs(os.path.join(os.fsencode(course / "submitted"), name, WEEK.encode()))
    assert set(graded(course)) == {"a", "b", "c"}
    sentences = grade.strangers_in(course / "submitted", WEEK)
    assert len(sentences) == len(STRANGE)
    assert all("is not a student's: its name" in sentence and sentence.isprintable() for sentence in sentences)
    printer = Console(record=True, width=300)
    monkeypatch.setattr(reports, "console", printer)
    reports.print_class([], sentences)
    assert printer.export_text().count("is not a student's") == len(STRANGE)


def test_odd_names_that_keep_the_rule_are_graded_printed_and_written(course):
    odd = ["[/red]", "=cmd()", "O'Brien", "ada@uni.example", "王小明", "Jane Doe"]
    for name in odd:
        shutil.copytree(course / "submitted" / "b", course / "submitted" / name)
    results = graded(course, students=odd)
    reports.print_class(list(results.values()))
    tables.write_class(WEEK, list(results.values()), course / f"{WEEK}.csv", course)
    assert table_of(course) == {"'=cmd()" if name == "=cmd()" else name: str(demo.POINTS) for name in odd}


def test_a_file_that_is_not_utf_8_beside_the_notebook_is_a_note(course):
    folder = os.path.join(os.fsencode(course / "submitted" / "b"), WEEK.encode())
    open(os.path.join(folder, b"\xff.ipynb"), "w").close()
    verdicts = graded(course)["b"]
    assert (
        points(verdicts) == demo.POINTS
        and "was read, not" in verdicts["notes"][0]
        and verdicts["notes"][0].isprintable()
    )


def test_a_folder_that_may_not_be_looked_into_is_a_sentence(course, monkeypatch):
    real = grade._may_hold

    def forbidden(folder):
        if folder.parent.name == "b":
            raise PermissionError(13, "Permission denied", str(folder))
        return real(folder)

    monkeypatch.setattr("pathlib.Path.is_symlink", lambda path: forbidden(path) and False)
    results = graded(course)
    assert points(results["a"]) == demo.POINTS and points(results["b"]) == 0
    assert "could not be read (PermissionError" in next(iter(results["b"]["exercises"].values()))["text"]


RIGHT = {"preamble": "", "cells": [["week01.naive-bill", "def naive_all_reduce_bill(n, s): return 1, 1", True]]}


def test_a_sandbox_lost_with_one_answer_alone_is_that_answers_verdict(monkeypatch):
    check = weeks.find("week01.naive-bill")
    with Judge() as judge:
        real = judge._ask

        def lost(job):
            if job.answer == RIGHT:
                raise SandboxLost("the job ended without an answer")
            return real(job)

        monkeypatch.setattr(judge, "_ask", lost)
        verdict = judge.judge(check, RIGHT, 1)
        assert verdict.look and not verdict.fault and verdict.points == 0
        assert "3 times with this answer" in verdict.text and "instructor" not in verdict.text
        assert submission._judged(judge, check, RIGHT, 1).text.endswith("This has been flagged for your instructor.")


# ---- `autograder demo` says what the cheating submission does and what to do next. -----------------------------------


def test_the_demo_says_what_each_cheat_does(capsys):
    demo.show_cheats()
    said = " ".join(capsys.readouterr().out.split())
    assert all(exercise in said for exercise in demo.CHEATS) and "Wrong: " not in said
    assert "week01.exchange: returns its own tensor, nothing was exchanged." in said


def test_the_demo_ends_with_the_next_step(capsys, monkeypatch):
    monkeypatch.setattr(demo, "show_ranks", lambda: None)
    monkeypatch.setattr(demo, "show_grades", lambda: None)
    demo.main()
    assert "make lab" in capsys.readouterr().out
