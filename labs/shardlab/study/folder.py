"""A learner's folder: the pages with the answers, and `.study/` beside them with what the study keeps.

work/weekNN_topic/weekNN_topic.ipynb    a page with the learner's answers
work/weekNN_topic/backups/              the page before an update or a reset
work/attempts/                          answers that were put away
work/.study/records.jsonl               checks, hints, cards: one line each
work/.study/pages/weekNN_topic.ipynb    the page as it was laid out: what is not in it is the learner's
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from shardlab.meant import instead
from shardlab.study import page
from shardlab.study.where import INSTALLED, NAME, ROOT, around

FORMAT = 1
MOST_TWICE = 50  # times that a page says the same in a cell


@dataclass(frozen=True)
class Folder:
    """Where a learner works, and the course whose pages lie in it."""

    path: Path
    course: Path

    @property
    def records(self) -> Path:
        return self.path / NAME / "records.jsonl"

    @property
    def attempts(self) -> Path:
        return self.path / "attempts"

    def notebook(self, week: str) -> Path:
        """The learner's page of a week."""
        return page.page_path(self.path, week)

    def laid_out(self, week: str) -> Path:
        """The page as it was laid out last."""
        return self.path / NAME / "pages" / f"{week}.ipynb"

    def weeks(self) -> list[str]:
        return page.weeks_of(self.course)

    def week(self, name: str) -> str:
        """The full name of "week02" or "week02_ddp"; raises ValueError that lists the weeks there are."""
        found = [week for week in self.weeks() if name in (week, week.split("_")[0])]
        if len(found) != 1:
            raise ValueError(f"no week is called {name!r}: {instead(name, self.weeks())}")
        return found[0]

    def exercises(self) -> dict[str, page.Exercise]:
        """All exercises of the course by name, in its order."""
        return {one.name: one for week in self.weeks() for one in page.exercises_of(self.course, week)}

    def exercise(self, name: str) -> page.Exercise:
        """An exercise by its name, or by a part of it that no other of the week has: "week02.bucket".

        Raises ValueError that lists the exercises in question.
        """
        everything = self.exercises()
        if name in everything:
            return everything[name]
        week, _, part = name.partition(".")
        of_week = [one for one in everything if one.startswith(f"{week}.")]
        found = [one for one in of_week if part and part in one.partition(".")[2]]
        if len(found) != 1:
            raise ValueError(f"{name!r} names no single exercise: {instead(name, found or of_week or everything)}")
        return everything[found[0]]


def course_folder() -> Path:
    """The folder with the course's pages, in the installed package or in the course's own folder.

    Raises ValueError where there are none.
    """
    found = next((one for one in (INSTALLED, ROOT / "course") if page.weeks_of(one)), None)
    if found is None:
        raise ValueError(f"there are no pages in {ROOT / 'course'}: install the course from its own folder")
    return found


def _usual(source: Path) -> Path:
    """Where a learner's folder lies unless another is named: beside the course, or here if that is inside a package."""
    return (Path.cwd() if source == INSTALLED else source.parent) / "work"


def find(path: Path | None = None, course: Path | None = None) -> Folder:
    """The learner's folder: the one that is named, else the one around here, else the usual one.

    Raises ValueError where it was not laid out.
    """
    source = course or course_folder()
    chosen = path or around(Path.cwd()) or _usual(source)
    try:
        kept = json.loads((chosen / NAME / "folder.json").read_text(encoding="utf-8"))["format"]
    except FileNotFoundError:
        raise ValueError(f"{chosen} is not laid out: `shardlab study begin` does it, as `make lab` does") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{chosen / NAME / 'folder.json'} cannot be read ({error}): delete it and begin again"
        ) from None
    if kept != FORMAT:
        raise ValueError(f"{chosen} has format {kept!r} and this course reads {FORMAT}: update the course first")
    return Folder(chosen.resolve(), source)


def begin(path: Path | None = None, course: Path | None = None) -> tuple[Folder, list[str]]:
    """Lay out the pages that are not there yet, and return the folder and the weeks that were laid out.

    What is there stays as it is. Answers that somebody wrote into course/ itself come along.
    """
    source = course or course_folder()
    folder = Folder((path or around(Path.cwd()) or _usual(source)).resolve(), source)
    if folder.path == source.resolve() or source.resolve() in folder.path.parents:
        raise ValueError(f"{folder.path} lies in the course, whose pages updates overwrite: choose another folder")
    laid_out = []
    try:
        for week in folder.weeks():
            if not folder.notebook(week).exists():
                given = page.read(page.page_path(source, week))
                page.write(folder.laid_out(week), page.text_of(as_released(given)))
                page.write(folder.notebook(week), page.text_of(given))
                laid_out.append(week)
        if not (folder.path / "start.ipynb").exists():
            page.write(
                folder.path / "start.ipynb", (Path(__file__).with_name("start_page.json")).read_text(encoding="utf-8")
            )
        if not (folder.path / NAME / "folder.json").exists():
            page.write(folder.path / NAME / "folder.json", json.dumps({"format": FORMAT}) + "\n")
    except OSError as error:
        raise ValueError(f"{folder.path} cannot be written to ({error}): choose another with --folder") from None
    return folder, laid_out


def as_released(notebook: NotebookNode) -> NotebookNode:
    """A page without what a learner did to it, as far as the page itself tells: ids by text, checksums of answers.

    An answer's blank is not known then; it is left empty, so that what stands in the cell counts as written.
    """
    kept = []
    for cell in deepcopy(notebook.cells):
        if checksum := page.marks(cell).get("checksum"):
            cell.source = cell.source if checksum == page.checksum(cell) else ""
            kept.append(cell)
        elif not page.marks(cell) and _is_as_given(cell):
            kept.append(cell)
    return NotebookNode(notebook | {"cells": kept})


def _is_as_given(cell: NotebookNode) -> bool:
    times = range(1, MOST_TWICE)
    return any(cell.get("id") == page.content_id(cell.cell_type, number, cell.source) for number in times)
