"""What `autograder collect` prints."""

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
    """One line per file: whose it is, what became of it, and why. `kind` of source: exchange, git or archive."""
    table = Table(title=f"{len(lines)} lines")
    for name in ("file", "student", "outcome", "why"):
        table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(*(escape(printable(text)) for text in (line.file, line.student, line.outcome, line.sentence)))
    console.print(table)
    counts = Counter(line.outcome for line in lines)
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "There is nothing in it.")
    if kind == "exchange":
        print("timestamp.txt holds the time at which this machine's kernel saw the last change.")
    elif kind == "git":
        print("timestamp.txt holds the times of the commits, which students' own clocks set: collect when it is due.")
    elif due is None:
        print("No due date is known (--due, or the gradebook's): timestamp.txt holds the times of the zip file.")
    else:
        until = due.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
        print(f"Due {until}. Whoever is not marked LATE counts as on time; Moodle marks nobody.")
