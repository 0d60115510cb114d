"""A page and its checks agree."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autograder import weeks
from autograder.authoring import agreement, notebooks
from autograder.authoring.course import ROOT, copy_course
from autograder.cli import app

# ---- A page and its checks agree, or nothing is built and graded; and docs/teaching.md says how to change both. ------

WEEK = "week01_collectives"


@pytest.mark.parametrize("week", notebooks.weeks())
def test_every_page_fits_its_checks(week):
    agreement.refuse_disagreement(week)


def test_every_registered_week_has_a_page():
    assert [notebooks.find_week(week).split("_")[0] for week in weeks.WEEKS] == list(weeks.WEEKS)


def changed_checks(monkeypatch, change):
    bill_first = sorted(weeks.WEEKS["week01"], key=lambda check: check.exercise != "week01.naive-bill")
    monkeypatch.setitem(weeks.WEEKS, "week01", tuple(change(bill_first)))


def nine_points(found):
    return [replace(found[0], points=9), *found[1:]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (nine_points, "the cell week01-naive-bill-check has points=1, but its check has points=9"),
        (lambda found: found[1:], "week01.naive-bill has no check"),
        (lambda found: [*found, replace(found[0], exercise="week01.new")], 'no cell exercise="week01.new" on the page'),
        (lambda found: [*found, found[0]], "2 files of the week define the check of week01.naive-bill"),
        (lambda found: [replace(found[0], names=("bill",)), *found[1:]], "week01-naive-bill does not define bill"),
    ],
)
@pytest.mark.parametrize("command", ["build", "grade"])
def test_disagreement_is_refused_with_a_sentence(monkeypatch, tmp_path, command, change, words):
    changed_checks(monkeypatch, change)
    monkeypatch.setattr(notebooks, "build", lambda *_, **__: pytest.fail("it was built"))
    monkeypatch.setattr("autograder.grading.grade.grade", lambda *_, **__: pytest.fail("it was graded"))
    arguments = ["--submitted", str(tmp_path)] if command == "grade" else []
    answer = CliRunner().invoke(app, [command, WEEK, *arguments])
    assert answer.exit_code == 2 and words in answer.output, answer.output


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("points=1", "points=9", "has points=9, but its check has points=1"),
        ("points=1", "points=1 optional=true", "only one of the cell week01-naive-bill-check and its check says"),
        ('check("week01.naive-bill"', 'check("week01.exchange"', 'does not call check("week01.naive-bill", …)'),
        ("def naive_all_reduce_bill", "def bill", "does not define naive_all_reduce_bill"),
        ('# %% check="week01.naive-bill" points=1', "# %%", 'no cell check="week01.naive-bill" on the page'),
    ],
)
def test_a_changed_page_is_refused(monkeypatch, tmp_path, old, new, words):
    page = notebooks.source_path(WEEK).read_text()
    assert old in page
    copied = tmp_path / f"{WEEK}.py"
    copied.write_text(page.replace(old, new, 1))
    monkeypatch.setattr(notebooks, "source_path", lambda *_: copied)
    with pytest.raises(ValueError, match=re.escape(words)):
        agreement.refuse_disagreement(WEEK)


# ---- the steps in docs/teaching.md, done in a copy of the course -----------------------------------------------------

KNOWN_ARE_JUDGED = """
import sys
from autograder import weeks
from autograder.matrices import known
from autograder.judging.judge import Judge
check = weeks.find(sys.argv[1])
answers = known.answers_of(check.exercise)
with Judge() as judge:
    for one in answers:
        verdict = judge.judge(check, {"cells": [[check.exercise, one.source, True]]}, 1)
        assert verdict.is_right == one.is_right, (one.name, verdict.text)
print(len(answers))
"""


@pytest.fixture
def course(tmp_path):
    """A copy of the course that can be edited."""
    return copy_course(tmp_path, ("autograder", "solutions", "course", "nbgrader_config.py"))


def in_the_course(course: Path, *arguments: str) -> subprocess.CompletedProcess:
    paths = os.pathsep.join([str(course), str(ROOT / "labs")])
    variables = os.environ | {"PYTHONPATH": paths, "AUTOGRADER_LEVEL": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=course,
        env=variables,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def build(course):
    return in_the_course(course, "-m", "autograder.cli", "build", WEEK)


def tables_on_the_page(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / "teaching.md").read_text(), re.DOTALL)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("command", "name", "week"),
    [
        ("new-exercise", "week01.ring-rounds", WEEK),
        ("new-week", "week17_own_topic", "week17_own_topic"),
    ],
)
def test_what_is_laid_out_passes_as_it_is(course, command, name, week):
    assert f"autograder {command} {name}" in (ROOT / "docs" / "teaching.md").read_text()
    made = in_the_course(course, "-m", "autograder.cli", command, name)
    edited = [line for line in made.stdout.splitlines() if line.startswith(str(course))]
    assert made.returncode == 0 and len(edited) <= 3 and all(map(os.path.isfile, edited)), made.stderr
    built = in_the_course(course, "-m", "autograder.cli", "build", week)
    assert built.returncode == 0 and "(new)" in built.stdout, built.stderr
    assert "ring_rounds" in (course / "course" / week / f"{week}.ipynb").read_text()
    judged = in_the_course(course, "-c", KNOWN_ARE_JUDGED, f"{week[:6]}.ring-rounds")
    assert judged.returncode == 0 and int(judged.stdout) >= 6, judged.stderr
    (wrong,) = [text for text in tables_on_the_page("python") if text.startswith("# %% one_phase")]
    assert wrong in (course / "solutions" / week / "known" / "ring_rounds.py").read_text()
    test = course / "solutions" / week / f"test_{week}.py"
    if command == "new-week":
        assert in_the_course(course, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)).returncode == 0


@pytest.mark.parametrize(
    ("command", "name", "words"),
    [
        ("new-exercise", "week01.exchange", "already exists"),
        ("new-exercise", "ring_rounds", "is not an exercise"),
        ("new-exercise", "week99.ring-rounds", "no week is called"),
        ("new-week", "week01_again", "week 01 already exists: week01_collectives"),
        ("new-week", "tensor_parallel", "is not a week"),
    ],
)
def test_a_name_that_cannot_be_is_refused(command, name, words):
    answer = CliRunner().invoke(app, [command, name])
    assert answer.exit_code == 2 and words in answer.output


@pytest.mark.slow
def test_points_are_changed_as_the_page_for_teachers_says(course):
    page = course / "solutions" / WEEK / f"{WEEK}.py"
    check = course / "autograder" / "weeks" / WEEK / "naive_bill.py"
    page.write_text(
        page.read_text().replace('check="week01.naive-bill" points=1', 'check="week01.naive-bill" points=4')
    )
    refused = build(course)
    assert refused.returncode == 2 and "has points=4, but its check has points=1" in refused.stderr
    check.write_text(check.read_text().replace("points=1", "points=4"))
    assert build(course).returncode == 0
    assert '"points": 4' in (course / "course" / WEEK / f"{WEEK}.ipynb").read_text()
