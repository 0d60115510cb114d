"""The text and tables of `shardlab study`, made with rich: the same in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from pygments.token import Comment, Keyword, String
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text

from shardlab.study import cards, progress, records
from shardlab.study.folder import Folder
from shardlab.study.hints import Case, Hints, Solution
from shardlab.study.progress import Standing, Week
from shardlab.study.records import Record
from shardlab.study.update import is_behind

# Code in the color of the surrounding text, so that one theme works on light and dark pages and terminals.
ON_ANY_BACKGROUND = ANSISyntaxTheme(
    {Keyword: Style(bold=True), Comment: Style(italic=True), String.Doc: Style(italic=True)}
)

ALL_RIGHT = (
    "Every check of the core passes. Optional exercises, written answers and the interview remain: "
    "`shardlab study cards`."
)


def overview(folder: Folder, now: datetime | None = None) -> Group:
    """The table of weeks, followed by what to do next."""
    rows, unreadable = records.read(folder.records)
    weeks = progress.weeks(folder, rows)
    return Group(_table(weeks), *[Text(line) for line in _below(folder, weeks, rows, unreadable, now)])


def _table(weeks: Sequence[Week]) -> Table:
    table = Table(title="Your progress")
    table.add_column("week")
    for name in ("points", "of", "tries", "hints", "time"):
        table.add_column(name, justify="right")
    for week in weeks:
        begun = any(one.last >= 0 for one in week.standings)
        mark = "✓" if week.core and week.is_done else "·" if begun else ""
        values = [f"{week.points:g}", f"{week.most:g}", str(week.tries), str(week.hints), time(week.seconds)]
        table.add_row(f"{week.name} {mark}", *(values if begun else ["", f"{week.most:g}", "", "", ""]))
    table.add_section()
    total = [f"{sum(getattr(week, name) for week in weeks):g}" for name in ("points", "most", "tries", "hints")]
    table.add_row("all", *total, time(sum(week.seconds for week in weeks)))
    return table


def time(seconds: float) -> str:
    """A working time in minutes, or in hours and minutes from one hour up."""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


def _below(
    folder: Folder, weeks: Sequence[Week], rows: Sequence[Record], unreadable: int, now: datetime | None
) -> list[str]:
    return [_next(folder, progress.next_exercise(weeks)), *notes(folder, rows, unreadable, now)]


def notes(folder: Folder, rows: Sequence[Record], unreadable: int, now: datetime | None = None) -> list[str]:
    """Sentences about the last visit, newer pages, cards that are due, and records that cannot be read."""
    lines = []
    last = max((records.when(row) for row in rows), default=None)
    if last is not None:
        days = ((now or datetime.now(UTC)) - last).days
        lines.append(f"You were here {'today' if days < 1 else 'yesterday' if days < 2 else f'{days} days ago'}.")
    if behind := [week for week in folder.weeks() if folder.notebook(week).exists() and is_behind(folder, week)]:
        count = "1 page" if len(behind) == 1 else f"{len(behind)} pages"
        lines.append(f"The course has newer text for {count}: `shardlab study update` adds it and keeps your answers.")
    if waiting := len(cards.due(folder, rows, now=now)):
        lines.append(f"{waiting} interview questions from your weeks are due: `shardlab study cards`.")
    if unreadable:
        lines.append(f"{unreadable} lines of {folder.records} are unreadable and were skipped.")
    return lines


def _next(folder: Folder, standing: Standing | None) -> str:
    if standing is None:
        return ALL_RIGHT
    one = standing.exercise
    path = folder.notebook(folder.week(one.week)).relative_to(folder.path)
    text = f"Next: {one.name} in {path}, {points(standing)}"
    if not standing.tries:
        return f"{text}."
    more = "solution" if standing.was_attempted else "hint"
    return f"{text}. For help: `shardlab study {more} {one.name}`."


def points(standing: Standing) -> str:
    """The points of an exercise and its tries, such as "0 of 3 points after 2 tries"."""
    text = f"{standing.points:g} of {standing.exercise.points:g} points"
    tries = "1 try" if standing.tries == 1 else f"{standing.tries} tries"
    text = f"{text}, optional" if standing.exercise.is_optional else text
    return f"{text} after {tries}" if standing.tries else text


def hints(found: Hints, without: Collection[int] = ()) -> Group:
    """All opened hints except those in `without`, newest last, and what to do after the last one."""
    lines = [
        Text(f"Hint {level} of {found.count} for {found.exercise}: {text}")
        for level, text in enumerate(found.opened, 1)
        if level not in without
    ]
    if not found.is_new:
        lines.append(
            Text(f"There are no more hints. After an honest attempt: `shardlab study solution {found.exercise}`.")
        )
    return Group(*lines, *_trouble(found))


def _trouble(found: Hints | Solution) -> list[Text]:
    return [Text(found.trouble)] if found.trouble else []


def solution(found: Solution) -> Group:
    """Two answers side by side, and a comparison of what they send and hold."""
    language = "markdown" if found.why_not.startswith("a written") else "python"
    boxes = [
        Panel(Syntax(text, language, word_wrap=True, theme=ON_ANY_BACKGROUND), title=title, width=76)
        for title, text in (("yours", found.mine), (f"the course's: {found.exercise}", found.course))
    ]
    below: RenderableType = Text(f"No comparison of what the two send and hold: {found.why_not}.")
    return Group(Columns(boxes), _cases(found.cases) if found.cases else below, *_trouble(found))


def _cases(cases: Sequence[Case]) -> Table:
    table = Table(title="Visible cases of your last check, maximum over ranks")
    for name in ("case", "", "yours", "the course's"):
        table.add_column(name, justify="left" if name in ("case", "") else "right", overflow="fold")
    for case in cases:
        for name, label in (("sent_bytes", "bytes sent"), ("calls", "calls"), ("peak_bytes", "peak bytes held")):
            mine, course = case.mine.get(name), case.course.get(name)
            if mine and course:
                table.add_row(
                    case.name if name == "sent_bytes" else "", label, f"{max(mine):,.0f}", f"{max(course):,.0f}"
                )
    return table
