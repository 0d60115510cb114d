"""Rows say whether a bar is met, and the command knows its benchmarks."""

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import times
from benchmarks.row import at_least_times, at_most


def test_a_bar_of_a_number():
    met, missed = at_most("seconds", 0.2, 0.25, peer=8.0), at_most("seconds", 0.3, 0.25)
    assert (met.met, missed.met) == (True, False)
    assert (met.ratio, missed.peer, missed.ratio) == (40.0, None, None)
    assert at_most("left behind", 0, 0).met


def test_a_bar_of_a_ratio():
    assert at_least_times("seconds", ours=1.25, peer=1.0, times=0.8).met
    assert not at_least_times("seconds", ours=1.3, peer=1.0, times=0.8).met


def test_the_table_shows_what_was_missed():
    console = Console(record=True, width=120)
    console.print(command.as_table([at_most("left behind", 3, 0)]))
    text = console.export_text()
    assert "left behind" in text and "NO" in text


def test_the_command_knows_its_benchmarks(capsys):
    assert {"warm-call", "ring-all-reduce", "thousand-calls", "week-notebooks", "week01-grading"} <= set(command.NAMES)
    with pytest.raises(SystemExit):
        command.main(["no-such-thing"])
    assert "there is no benchmark 'no-such-thing': use " in capsys.readouterr().err


def test_the_quick_group_fits_ten_minutes_and_is_named_like_a_benchmark():
    assert sum(times.LIMITS.values()) <= 600 and set(times.LIMITS) < set(command.in_order([]))
    assert command.in_order(["quick"]) == list(times.LIMITS)
    assert command.in_order(["planner", "quick"])[0] == "planner"
    assert len(command.in_order(["quick", "quick", "kills"])) == len(times.LIMITS) + 1


def test_how_long_it_will_take_is_what_it_took_here(tmp_path):
    path = tmp_path / "build" / "seconds.json"
    first = times.expected(["pipelines", "planner"], path)
    assert "about 1.5 min, and pipelines" in first and "benchmarks quick` stays within 9.5 min" in first
    assert times.remember("pipelines", 90.04, path) == "pipelines took 90 s"
    assert "more than the 90 s that quick allows it" in times.remember("planner", 150, path)
    assert times.expected(["pipelines", "planner"], path) == "2 benchmarks: about 4.0 min"
    path.write_text("no JSON")
    assert times.last_times(path) == {}
