"""A small course, and a learner's folder created from it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from shardlab.study import page
from shardlab.study.folder import Folder, begin
from small_course import write_course


@pytest.fixture
def course(tmp_path: Path) -> Path:
    write_course(tmp_path / "course")
    return tmp_path / "course"


@pytest.fixture
def folder(course: Path, tmp_path: Path) -> Folder:
    return begin(tmp_path / "work", course)[0]


@pytest.fixture
def write_answer(folder: Folder) -> Callable[[str, str], None]:
    """Write into an exercise cell of the learner's page and save it."""

    def write(name: str, source: str) -> None:
        path = folder.notebook(folder.week(name.partition(".")[0]))
        notebook = page.read(path)
        next(cell for cell in notebook.cells if page.name_of(cell) == name.replace(".", "-", 1)).source = source
        page.write(path, page.text_of(notebook))

    return write
