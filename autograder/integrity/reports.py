"""Print the reports of `autograder audit`, `replay` and `similarity`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from autograder.integrity.audit import Fact
from autograder.integrity.replay import Replay
from autograder.integrity.similarity import LEAST_PERCENT, LEAST_SHARED, NOTE, Report
from autograder.judging.judge import clean
from autograder.terminal import console

SHOWN_LINES = 4  # lines per common fragment; --json has all


def print_audit(student: str, facts: Sequence[Fact]) -> None:
    """Print one line per fact, then what has changed."""
    table = Table("fact", "recorded", "now", title=escape(student))
    for fact in facts:
        now = "" if fact.now is None else "the same" if fact.now == fact.recorded else _cell(fact.now) or "–"
        table.add_row(fact.name, _cell(fact.recorded) or "–", now)
    console.print(table)
    problems = [fact.problem for fact in facts if fact.problem]
    for problem in problems or ["Nothing has changed since the submission was graded."]:
        print(problem)


def print_replay(student: str, result: Replay) -> None:
    """Print one line per exercise: points then and now."""
    table = Table("exercise", "before", "now", "", title=f"{escape(student)}, judged again")
    for change in result.changes:
        was, now = ("–" if points is None else f"{points:g}" for points in (change.was, change.now))
        table.add_row(change.exercise, was, now, "" if change.is_same else _cell(change.text))
    console.print(table)
    for note in result.notes:
        print(note)
    different = [change.exercise for change in result.changes if not change.is_same]
    print(f"Points changed: {', '.join(different)}." if different else "All points are the same.")
    faults = [change.exercise for change in result.changes if change.fault]
    if faults:
        print(f"The machine failed for {', '.join(faults)}: replay again.")


def print_similarity(report: Report) -> None:
    """Print one line per pair, then what was not compared, and how not to read the table."""
    table = Table("pair", "exercise", "per cent", "own tokens", show_lines=True)
    table.add_column("longest common fragment", overflow="fold", ratio=1)
    for pair in report.pairs:
        lines = pair.fragment.split("\n")
        more = [f"… {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
        table.add_row(
            _cell(f"{pair.first}\n{pair.second}"),
            escape(_short(pair.exercise)),
            f"{pair.percent:.0f}",
            f"{pair.shared:.0f}",
            _cell("\n".join([*lines[:SHOWN_LINES], *more])),
        )
    if report.pairs:
        console.print(table)
    else:
        print(f"No pair shares {LEAST_SHARED:.0f} original tokens and {LEAST_PERCENT:.0f} percent of an answer.")
    counts = report.num_answers
    short = [f"{_short(name)} {count} of {counts[name]}" for name, count in report.num_too_short.items() if count]
    if short:
        print(f"Too short, or too close to the given code, to be compared: {', '.join(short)}.")
    print(NOTE)


def _short(exercise: str) -> str:
    """Return an exercise's name without its week."""
    return exercise.split(".", maxsplit=1)[-1]


def _cell(text: str) -> str:
    """Make a text that may contain a student's own words safe for the terminal."""
    return escape(clean(text))
