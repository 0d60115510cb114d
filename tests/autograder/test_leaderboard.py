"""The board: timed alternately with the reference, round-tripped through files, merged by ratio, free of markup."""

from dataclasses import replace

import pytest
from shardlab.hybrid.race import REFERENCE, STEPS, Lap, RaceEntry
from typer.testing import CliRunner

from autograder.cli import app
from autograder.leaderboard import board
from autograder.leaderboard.board import Entry

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
