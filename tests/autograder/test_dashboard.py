"""The page about a class: counts that add up, mistakes merged regardless of numbers, nothing that loads or runs."""

import json
import re
import shutil

import pytest
from bs4 import BeautifulSoup
from tiny_course import hand_in, make_tiny_course, write_verdict
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import notebooks
from autograder.dashboard.summary import page, summarise, without_numbers
from autograder.grading import verdict_files
from autograder.judging import exhibits

WEEK = "week01_tiny"


def verdict(student, double, triple, **more):
    exercises = {
        "week01.double": {"points": double[0], "max": 3.0, "text": double[1], "fault": False, "look": False},
        "week01.triple": {"points": triple[0], "max": 2.0, "text": triple[1], "fault": False, "look": False},
    }
    return (
        {"student": student, "assignment": WEEK, "seconds": 4.0, "time": "2026-11-26T10:00:00Z"}
        | more
        | {"exercises": exercises}
    )


CLASS = [
    verdict("ada", (3.0, "Correct."), (2.0, "Correct.")),
    verdict("bob", (0.0, "With 2 numbers: expected 8, got 7.5."), (1.0, "With <script>alert(1)</script>: slow.")),
    verdict("cy", (0.0, "With 5 numbers: expected 20, got -1e-3."), (2.0, "Correct."), seconds=9.0),
    verdict("dee", (0.0, "There is no cell for this exercise: was it deleted?"), (0.0, "NameError: name 'x'.")),
]


def test_counts_means_and_mistakes():
    week = summarise(WEEK, CLASS)
    double, triple = week.exercises
    assert (double.counts, triple.counts) == ({"full": 1, "part": 0, "none": 3}, {"full": 2, "part": 1, "none": 1})
    assert (double.share, triple.share) == (1 / 4, 5 / 8) and week.totals == [5, 1, 2, 0] and week.max == 5
    assert [(one.students, one.sentence[:16]) for one in double.mistakes] == [
        (("bob", "cy"), "With 2 numbers: "),
        (("dee",), "There is no cell"),
    ]
    assert week.usual_seconds == 4


@pytest.mark.parametrize("number", ["7", "-1e-3", "1,024", "+0.5", "3."])
def test_sentences_differ_in_numbers_alone(number):
    assert without_numbers(f"Rank 1 sends {number} bytes").startswith("Rank # sends #")


def test_the_page_loads_and_runs_nothing_and_says_all():
    text = page([summarise(WEEK, CLASS), summarise("week02_tiny", CLASS[:1])])
    soup = BeautifulSoup(text, "html.parser")
    assert not soup.find_all(["script", "img", "iframe", "object"]) and "alert(1)" in soup.get_text()
    assert all(link["href"].startswith(("#", "data:")) for link in soup.find_all(href=True))
    assert {"ada", "bob", "cy", "dee"} <= set(re.findall(r"\w+", soup.get_text(" ")))
    assert {str(one["aria-label"]) for one in soup.select(".bar")} >= {"1 all, 0 some, 3 none", "2 all, 1 some, 1 none"}


def test_without_names_nobody_is_on_it():
    marked = [json.loads(json.dumps(one)) for one in CLASS]
    marked[3]["exercises"]["week01.double"] |= {"fault": True, "look": True}
    text = BeautifulSoup(page([summarise(WEEK, marked)], names=False), "html.parser").get_text(" ")
    assert not {"ada", "bob", "cy", "dee"} & set(re.findall(r"\w+", text)) and "grade again" in text


def test_the_command_takes_all_graded_weeks(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    out = tmp_path / "pages" / "class.html"
    none = CliRunner().invoke(cli.app, ["dashboard", "--out", str(out)])
    assert none.exit_code == 2 and "no week has been graded yet" in none.output
    for one in CLASS:
        verdict_files.write_verdicts(one, tmp_path)
    (verdict_files.folder_of(tmp_path) / ".run-week01_tiny.json").write_text("{}")
    exhibits.file_of(verdict_files.verdict_file("ada", WEEK, tmp_path)).write_text("{}")
    assert verdict_files.graded_weeks(tmp_path) == [WEEK]
    done = CliRunner().invoke(cli.app, ["dashboard", "--out", str(out)])
    assert done.exit_code == 0 and done.output.strip() == str(out) and "bob, cy" in out.read_text()


def test_what_is_to_be_graded_again_is_on_the_page():
    reason = "the submission has changed since it was judged"
    week = summarise(WEEK, [one | {"checks": "old"} for one in CLASS], {"bob": reason}, checks="new")
    shown = BeautifulSoup(page([week], ungraded={"week02_tiny": 3}), "html.parser").get_text(" ")
    assert f"bob ({reason})" in " ".join(shown.split()) and "week02_tiny: 3 submissions, none graded yet" in shown
    assert "4 of these verdicts come from other checks" in shown
    assert "bob" not in BeautifulSoup(page([week], names=False), "html.parser").get_text(" ")


def test_the_command_lists_a_submission_that_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    course, submitted = make_tiny_course(tmp_path), tmp_path / "autograder" / "submitted"
    hand_in(course, "ada", {})
    write_verdict(course, "ada", CLASS[0]["exercises"])
    out = tmp_path / "class.html"
    typed = ["dashboard", "--out", str(out), "--submitted", str(submitted)]
    assert CliRunner().invoke(cli.app, typed).exit_code == 0 and "To be graded again" not in out.read_text()
    shutil.rmtree(submitted / "ada")
    hand_in(course, "ada", {"week01-interview": "Another answer."})
    assert CliRunner().invoke(cli.app, typed).exit_code == 0 and "ada (the submission has changed" in out.read_text()
