"""Print the report of `autograder collect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.markup import escape
from rich.table import Table

from autograder.lms.placing import Line
from autograder.reading.names import printable
from autograder.terminal import console


def print_collected(lines: Sequence[Line], due: datetime | None, kind: str) -> None:
    """Print one line per file: its student, the outcome, and why. `kind` of source: exchange, git or archive."""
    table = Table(title=f"{len(lines)} lines")
    for name in ("file", "student", "outcome", "why"):
        table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(*(escape(printable(text)) for text in (line.file, line.student, line.outcome, line.sentence)))
    console.print(table)
    counts = Counter(line.outcome for line in lines)
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "It is empty.")
    if kind == "exchange":
        print("timestamp.txt contains the time of the last change, by this machine's kernel.")
    elif kind == "git":
        print("timestamp.txt contains commit times, which students' own clocks set: collect right at the due date.")
    elif due is None:
        print("No due date is known (--due, or the gradebook's): timestamp.txt contains the times in the zip file.")
    else:
        until = due.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
        print(f"Due {until}. Submissions not marked LATE count as on time; Moodle never marks any.")
