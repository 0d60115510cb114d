"""Pages and tables made of verdicts: the dashboard, the leaderboard, PostgreSQL."""

import getpass
import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from shardlab.hybrid.race import REFERENCE, STEPS, Lap, RaceEntry
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import notebooks
from autograder.cli import app
from autograder.dashboard.summary import page, summarise, without_numbers
from autograder.grading import publishing, verdict_files
from autograder.judging import exhibits
from autograder.leaderboard import board
from autograder.leaderboard.board import Entry
from tests.autograder.tiny_course import TINY_WEEK, hand_in, make_tiny_course, write_verdict

# ---- The page about a class: counts that add up, mistakes merged regardless of numbers, nothing that loads or runs. --

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


# ---- The board: timed alternately with the reference, round-tripped through files, merged by ratio, free of markup. --

RECIPE = RaceEntry(dp=2, tp=2, zero=1)
ENTRY = Entry("ada", {"tp": 2}, 1500.0, 1000.0, 800_000, 2.9, "x86_64", "2026-11-20T10:00:00Z")


def racer(*seconds):
    """A race whose recipe takes these seconds in successive runs; the reference always takes one second."""
    times, asked = iter(seconds), []

    def race(recipe):
        asked.append(recipe)
        took = 1.0 if recipe == REFERENCE else next(times)
        return [Lap((3.0,) * STEPS, 700_000 + rank, took + rank / 1e6) for rank in range(4)]

    return race, asked


def test_the_best_of_three_counts_in_turns_with_the_reference():
    race, asked = racer(2.0, 0.5, 1.0)
    entry = board.timed("ada", RECIPE, race)
    assert asked == [REFERENCE, RECIPE] * 3
    assert entry.ratio == pytest.approx(2.0, rel=1e-4) and entry.peak_bytes == 700_003
    assert entry.recipe == {"tp": 2, "dp": 2, "zero": 1}


def test_files_are_read_back_and_merged_by_the_ratio(tmp_path):
    slow_machine = replace(ENTRY, student="bob", tokens_per_second=400.0, reference=200.0)
    later = replace(ENTRY, tokens_per_second=1100.0, time="2026-11-21T10:00:00Z")
    board.write([ENTRY, slow_machine], tmp_path / "one.jsonl")
    board.write([later], tmp_path / "two.jsonl")
    found = board.merged([board.read(tmp_path / "two.jsonl"), board.read(tmp_path / "one.jsonl")])
    assert [one.student for one in found] == ["bob", "ada"]  # twice the reference, on a slow machine
    assert found[1] == later


@pytest.mark.parametrize("line", ["{", '{"student": "ada"}', "[]", '{"student": 1, "ratio": 2}'])
def test_a_file_that_is_none_is_named(tmp_path, line):
    path = tmp_path / "x.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"x\.jsonl, line 1 is not an entry"):
        board.read(path)


def test_a_students_words_are_no_markup():
    evil = replace(ENTRY, student="<script>alert(1)</script>", recipe={"<b>": 1})
    assert "<script>" not in board.page([evil]) and "<b>" not in board.page([evil])


def test_the_command_merges_files_into_one_page(tmp_path):
    board.write([ENTRY], tmp_path / "one.jsonl")
    page = tmp_path / "board.html"
    result = CliRunner().invoke(app, ["leaderboard", "merge", str(tmp_path / "one.jsonl"), "--out", str(page)])
    assert result.exit_code == 0 and "1 entries" in result.output
    assert "ada" in page.read_text() and "1.50×" in page.read_text()
    result = CliRunner().invoke(app, ["leaderboard", "merge", str(tmp_path / "none.jsonl")])
    assert result.exit_code == 2


# ---- The gradebook in PostgreSQL, by URL: a separate server, reached through a socket in a private folder. -----------

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
USER = "postgres" if os.getuid() == 0 else getpass.getuser()


def user_exists(name: str) -> bool:
    return name in {entry.pw_name for entry in pwd.getpwall()}


@pytest.fixture(scope="module")
def url():
    pytest.importorskip("psycopg", reason="the driver is missing: pip install psycopg[binary]")
    as_user = {"user": USER} if os.getuid() == 0 else {}
    programs = PROGRAMS[-1].parent
    folder = Path(tempfile.mkdtemp(prefix="sys602-"))  # other users cannot open pytest's folders
    shutil.chown(folder, USER)

    def run(program: str, *options: object) -> None:
        typed = [programs / program, *map(str, options)]
        subprocess.run(typed, check=True, capture_output=True, timeout=120, cwd="/", **as_user)

    try:
        run("initdb", "-D", folder / "data", "-A", "trust", "-U", USER, "--no-sync")
        options = f"-c listen_addresses='' -k {folder} -c fsync=off"
        run("pg_ctl", "-D", folder / "data", "-w", "-o", options, "-l", folder / "log", "start")
        try:
            run("createdb", "-h", folder, "-U", USER, "gradebook")
            yield f"postgresql://{USER}@/gradebook?host={folder}"
        finally:
            run("pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(
    not PROGRAMS or not user_exists(USER), reason="no PostgreSQL here: apt install postgresql, and a user to run it"
)
@pytest.mark.slow
def test_verdicts_land_in_postgresql(url, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADEBOOK_URL", url)
    course = make_tiny_course(tmp_path)
    for student, points in (("ada", 3.0), ("bob", 0.0)):
        hand_in(course, student, {"week01-double": "def double(number):\n    return 2 * number\n"})
        verdict = {"points": points, "max": 3.0, "text": "Correct." if points else "Wrong.", "fault": False}
        write_verdict(course, student, {"week01.double": verdict})
    published = publishing.publish("week01", ["ada", "bob"], course)
    assert [one.problem for one in published] == ["", ""]
    with Gradebook(url) as gradebook:
        scores = {one["student"]: one["score"] for one in gradebook.submission_dicts(TINY_WEEK)}
    assert scores == {"ada": 3.0, "bob": 0.0}
    assert not (course / "autograder" / "gradebook.db").exists()
