"""A learner's folder: pages with answers, and `.study/` with the study's own files.

work/weekNN_topic/weekNN_topic.ipynb    a page with the learner's answers
work/weekNN_topic/backups/              the page before an update or a reset
work/attempts/                          answers that were moved away by a reset
work/.study/records.jsonl               checks, hints, cards: one line each
work/.study/pages/weekNN_topic.ipynb    the page as released: everything that differs from it is the learner's
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
MOST_TWICE = 50  # how many cells of a page may have the same text


@dataclass(frozen=True)
class Folder:
    """The folder in which a learner works, and the course that its pages come from."""

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
        """The latest released page in the learner's folder."""
        return self.path / NAME / "pages" / f"{week}.ipynb"

    def weeks(self) -> list[str]:
        return page.weeks_of(self.course)

    def week(self, name: str) -> str:
        """The full name of "week02" or "week02_ddp"; raises ValueError that lists the existing weeks."""
        found = [week for week in self.weeks() if name in (week, week.split("_")[0])]
        if len(found) != 1:
            raise ValueError(f"no week is called {name!r}: {instead(name, self.weeks())}")
        return found[0]

    def exercises(self) -> dict[str, page.Exercise]:
        """All exercises of the course by name, in its order."""
        return {one.name: one for week in self.weeks() for one in page.exercises_of(self.course, week)}

    def exercise(self, name: str) -> page.Exercise:
        """An exercise by its name, or by a part of it that is unique in its week: "week02.bucket".

        Raises ValueError that lists the candidates.
        """
        everything = self.exercises()
        if name in everything:
            return everything[name]
        week, _, part = name.partition(".")
        of_week = [one for one in everything if one.startswith(f"{week}.")]
        found = [one for one in of_week if part and part in one.partition(".")[2]]
        if len(found) != 1:
            raise ValueError(f"{name!r} does not match one exercise: {instead(name, found or of_week or everything)}")
        return everything[found[0]]


def course_folder() -> Path:
    """The folder with the course's pages, in the installed package or in the course's own folder.

    Raises ValueError if there are none.
    """
    found = next((one for one in (INSTALLED, ROOT / "course") if page.weeks_of(one)), None)
    if found is None:
        raise ValueError(f"there are no pages in {ROOT / 'course'}: install the course from its own folder")
    return found


def _usual(source: Path) -> Path:
    """The default learner's folder: next to the course, or in the working folder if the course is installed."""
    return (Path.cwd() if source == INSTALLED else source.parent) / "work"


def find(path: Path | None = None, course: Path | None = None) -> Folder:
    """The learner's folder: the given one, else the one that contains the working folder, else the default.

    Raises ValueError if it has not been set up.
    """
    source = course or course_folder()
    chosen = path or around(Path.cwd()) or _usual(source)
    try:
        kept = json.loads((chosen / NAME / "folder.json").read_text(encoding="utf-8"))["format"]
    except FileNotFoundError:
        raise ValueError(f"{chosen} is not set up: run `shardlab study begin` (`make lab` does it, too)") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{chosen / NAME / 'folder.json'} cannot be read ({error}): delete it and begin again"
        ) from None
    if kept != FORMAT:
        raise ValueError(f"{chosen} has format {kept!r}, but this course reads {FORMAT}: update the course first")
    return Folder(chosen.resolve(), source)


def begin(path: Path | None = None, course: Path | None = None) -> tuple[Folder, list[str]]:
    """Copy the missing pages into the learner's folder; returns the folder and the weeks that were copied.

    Existing files are unchanged. Answers that somebody wrote into course/ itself are copied, too.
    """
    source = course or course_folder()
    folder = Folder((path or around(Path.cwd()) or _usual(source)).resolve(), source)
    if folder.path == source.resolve() or source.resolve() in folder.path.parents:
        raise ValueError(f"{folder.path} is inside the course, where updates overwrite pages: choose another folder")
    laid_out = []
    try:
        for week in folder.weeks():
            if not folder.notebook(week).exists():
                given = page.read(page.page_path(source, week))
                page.write(folder.laid_out(week), page.text_of(as_released(given)))
                page.write(folder.notebook(week), page.text_of(given))
                laid_out.append(week)
        if not (folder.path / NAME / "folder.json").exists():
            page.write(folder.path / NAME / "folder.json", json.dumps({"format": FORMAT}) + "\n")
    except OSError as error:
        raise ValueError(f"{folder.path} is not writable ({error}): choose another with --folder") from None
    return folder, laid_out


def as_released(notebook: NotebookNode) -> NotebookNode:
    """A page without the learner's changes, as far as the page itself shows them (ids by text, answer checksums).

    The original text of a changed answer is unknown; it is left empty, so that the cell counts as answered.
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
