"""A page and its checks agree, or nothing is built and graded; and docs/teaching.md says how to change both."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autograder import agreement, checks, notebooks
from autograder.cli import app
from autograder.course import ROOT

WEEK = "week01_collectives"


@pytest.mark.parametrize("week", notebooks.weeks())
def test_every_page_fits_its_checks(week):
    agreement.refuse_disagreement(week)


def test_every_registered_week_has_a_page():
    assert [notebooks.find_week(week).split("_")[0] for week in checks.WEEKS] == list(checks.WEEKS)


def changed_checks(monkeypatch, change):
    monkeypatch.setitem(checks.WEEKS, "week01", tuple(change(list(checks.WEEKS["week01"]))))


def nine_points(found):
    return [replace(found[0], points=9), *found[1:]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (nine_points, "the cell week01-naive-bill-check has points=1, and its check has points=9"),
        (lambda found: found[1:], "week01.naive-bill has no registered check"),
        (lambda found: [*found, replace(found[0], exercise="week01.new")], 'no cell exercise="week01.new" on the page'),
        (lambda found: [*found, found[0]], "week01.naive-bill is registered 2 times"),
        (lambda found: [replace(found[0], names=("bill",)), *found[1:]], "week01-naive-bill does not define bill"),
    ],
)
@pytest.mark.parametrize("command", ["build", "grade"])
def test_disagreement_is_refused_with_a_sentence(monkeypatch, tmp_path, command, change, words):
    changed_checks(monkeypatch, change)
    monkeypatch.setattr(notebooks, "build", lambda *_, **__: pytest.fail("it was built"))
    monkeypatch.setattr("autograder.grade.grade", lambda *_, **__: pytest.fail("it was graded"))
    arguments = ["--submitted", str(tmp_path)] if command == "grade" else []
    answer = CliRunner().invoke(app, [command, WEEK, *arguments])
    assert answer.exit_code == 2 and words in answer.output, answer.output


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("points=1", "points=9", "has points=9, and its check has points=1"),
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


# ---- what docs/teaching.md says, done in a copy of the course --------------------------------------------------------

OTHERS = {
    "right_doubled": "2 * (num_ranks - 1), num_ranks * 2 * (num_ranks - 1)",
    "right_summed": "2 * num_ranks - 2, sum(2 * (num_ranks - 1) for _ in range(num_ranks))",
    "per_rank": "2 * (num_ranks - 1), 2 * (num_ranks - 1)",
    "one_more": "2 * num_ranks, 2 * num_ranks * num_ranks",
    "public_constant": "6, 24",
}
JUDGE_ALL = """
from autograder import checks, kill_matrix
from autograder.judge import Judge
check = checks.find("week01.ring-rounds")
with Judge() as judge:
    for path in kill_matrix.mutants_of(check):
        verdict = judge.judge(check, {"cells": [[check.exercise, path.read_text(), True]]}, 1)
        assert verdict.is_right == path.stem.startswith("right_"), (path.stem, verdict.text)
"""


@pytest.fixture
def course(tmp_path):
    """A copy of the course that can be edited."""
    ignored = shutil.ignore_patterns("__pycache__", "submitted", "verdicts", "feedback", "autograded", "*.db")
    for name in ("autograder", "solutions", "course"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    return tmp_path


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


def blocks():
    """The Python blocks of docs/teaching.md: cells of the page, and files that name their place in the first line."""
    found = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "teaching.md").read_text(), re.DOTALL)
    (cells,) = [block for block in found if block.startswith("# %%")]
    return cells, dict(block.removeprefix("# ").split("\n", 1) for block in found if not block.startswith("# %%"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_exercise_is_added_as_the_page_for_teachers_says(course):
    cells, files = blocks()
    page = course / "solutions" / WEEK / f"{WEEK}.py"
    page.write_text(f"{page.read_text()}\n{cells}")
    assert "week01.ring-rounds has no registered check" in build(course).stderr

    for place, text in files.items():
        (course / place).parent.mkdir(exist_ok=True)
        (course / place).write_text(text)
    for name, value in OTHERS.items():
        source = f'"""Kept."""\n\n\ndef ring_rounds(num_ranks):\n    return {value}\n'
        (course / "autograder" / "mutants" / "week01" / "ring_rounds" / f"{name}.py").write_text(source)
    registry = course / "autograder" / "checks" / "week01" / "__init__.py"
    text = registry.read_text().replace("    same_order,\n", "    ring_rounds,\n    same_order,\n")
    registry.write_text(text.replace("    same_order.CHECK,\n", "    ring_rounds.CHECK,\n    same_order.CHECK,\n"))

    built = build(course)
    assert built.returncode == 0 and "(new)" in built.stdout, built.stderr
    assert "ring_rounds" in (course / "course" / WEEK / f"{WEEK}.ipynb").read_text()
    judged = in_the_course(course, "-c", JUDGE_ALL)
    assert judged.returncode == 0, judged.stderr


@pytest.mark.slow
def test_points_are_changed_as_the_page_for_teachers_says(course):
    page = course / "solutions" / WEEK / f"{WEEK}.py"
    check = course / "autograder" / "checks" / "week01" / "naive_bill.py"
    page.write_text(
        page.read_text().replace('check="week01.naive-bill" points=1', 'check="week01.naive-bill" points=4')
    )
    refused = build(course)
    assert refused.returncode == 2 and "has points=4, and its check has points=1" in refused.stderr
    check.write_text(check.read_text().replace("points=1", "points=4"))
    assert build(course).returncode == 0
    assert '"points": 4' in (course / "course" / WEEK / f"{WEEK}.ipynb").read_text()
