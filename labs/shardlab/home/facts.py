"""A learner's folder as plain data, for the home page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from nbformat import NotebookNode

from shardlab.own import shelf
from shardlab.own.names import PACKAGE
from shardlab.study import page, progress, records, told
from shardlab.study.folder import Folder
from shardlab.study.progress import Week
from shardlab.study.trouble import TROUBLE, sentence

_HEADING = re.compile(r"# (?:Week \d+ · )?(?P<topic>[^:·\n]+)(?:: (?P<question>[^\n]+))?")
_TIME = re.compile(r"^\*([^·*\n]+)", re.MULTILINE)


@dataclass(frozen=True)
class Card:
    """One week: its subject, its hours, and how much of its core is done; `points` include optional ones."""

    label: str  # "week 3"
    topic: str
    question: str
    takes: str
    href: str
    done: int
    exercises: int
    points: float
    most: float
    seconds: float
    was_begun: bool


@dataclass(frozen=True)
class Next:
    """The exercise to do next: `label` is "week 3, exercise 2"."""

    label: str
    name: str
    href: str
    was_begun: bool  # whether the learner has begun any week
    more: str  # "0 of 3 points after 2 tries"


@dataclass(frozen=True)
class Module:
    """A module of the learner's own trainer; `href` is "" if there is no file yet."""

    name: str
    href: str
    own: int
    functions: int


@dataclass(frozen=True)
class Home:
    """All that the home page shows. `next` is None when every check of the core passes."""

    cards: Sequence[Card]
    next: Next | None
    modules: Sequence[Module]
    notes: Sequence[str]


def home_of(folder: Folder, now: datetime | None = None) -> Home:
    """Collect the facts of a learner's folder; raises ValueError if a page of the course is broken."""
    rows, unreadable = records.read(folder.records)
    weeks = progress.weeks(folder, rows)
    notes = told.notes(folder, rows, unreadable, now)
    try:
        modules = _modules(folder)
    except TROUBLE as error:
        modules, notes = [], [*notes, sentence(error)]
    return Home([_card(folder, week) for week in weeks], _next(folder, weeks), modules, notes)


def _card(folder: Folder, week: Week) -> Card:
    about = "".join(cell.source for cell in _cells(folder, week.name)[:1])
    heading, takes = _HEADING.search(about), _TIME.search(about)
    was_begun = any(one.last >= 0 for one in week.standings)
    return Card(
        label=_label(week.name),
        topic=(heading["topic"] if heading else week.name).strip(),
        question=((heading["question"] or "") if heading else "").strip(),
        takes=takes[1].strip() if takes else "",
        href=_href(folder, folder.notebook(week.name)),
        done=sum(one.is_right for one in week.core) + _num_written(folder, week),
        exercises=len(week.core) + week.num_written,
        points=week.points,
        most=week.most,
        seconds=week.seconds,
        was_begun=was_begun,
    )


def _cells(folder: Folder, week: str) -> list[NotebookNode]:
    """The cells of the course's page."""
    return page.read(page.page_path(folder.course, week)).cells


def _label(week: str) -> str:
    """Return "week 3" for "week03_zero", and "prerequisites" for "prerequisites"."""
    kind = (name := week.partition("_")[0]).rstrip("0123456789")
    return f"{kind} {int(name.removeprefix(kind))}" if name != kind else kind


def _href(folder: Folder, path: Path) -> str:
    """A link relative to the learner's folder, which JupyterLab and VS Code open from a page in that folder."""
    return quote(path.relative_to(folder.path).as_posix())


def _num_written(folder: Folder, week: Week) -> int:
    """How many written answers of a week the learner has begun; 0 if the page cannot be read."""
    if not week.num_written:
        return 0
    try:
        cells = page.read(folder.notebook(week.name)).cells
    except TROUBLE:
        return 0
    written = [cell for cell in cells if page.is_answer(cell) and page.marks(cell).get("grade")]
    changed = [cell for cell in written if page.marks(cell).get("checksum") != page.checksum(cell)]
    return min(sum(bool(cell.source.strip()) for cell in changed), week.num_written)


def _next(folder: Folder, weeks: Sequence[Week]) -> Next | None:
    standing = progress.next_exercise(weeks)
    if standing is None:
        return None
    one = standing.exercise
    week = folder.week(one.week)
    number = [other.name for other in page.exercises_of(folder.course, week)].index(one.name) + 1
    was_begun = any(other.last >= 0 for found in weeks for other in found.standings if found.name == week)
    return Next(
        label=f"{_label(week)}, exercise {number}",
        name=one.name,
        href=_href(folder, folder.notebook(week)) + (_fragment(folder, week, one.name) if was_begun else ""),
        was_begun=any(other.last >= 0 for week in weeks for other in week.standings),
        more=told.points(standing),
    )


def _fragment(folder: Folder, week: str, exercise: str) -> str:
    """The end of a link, which scrolls JupyterLab to the text above an exercise; VS Code ignores it."""
    text = ""
    for cell in _cells(folder, week):
        if cell.cell_type == "markdown":
            text = str(cell.get("id", ""))
        if page.exercise_id(page.name_of(cell)) == exercise:
            break
    return f"#cell-id={quote(text)}" if text else ""


def _modules(folder: Folder) -> list[Module]:
    found = []
    for name, rows in shelf.yours(folder).items():
        path = folder.path / PACKAGE / f"{name}.py"
        own, every = (sum(len(piece.names) for piece, is_own in rows if is_own or both) for both in (False, True))
        found.append(Module(f"{PACKAGE}/{name}.py", _href(folder, path) if path.is_file() else "", own, every))
    return found
