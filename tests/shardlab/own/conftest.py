"""A small course with packed answers, and a learner's folder as the working directory."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_course import course_answers
from shardlab.own import blocks, finder, loader
from shardlab.study import page
from shardlab.study.folder import Folder, begin


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    course = tmp_path / "course"
    page.write(course / "week01_rings" / "week01_rings.ipynb", page.text_of(page.v4.new_notebook()))
    page.write(course / "own.json", blocks.packed(course_answers()))
    found, _ = begin(tmp_path / "work", course)
    monkeypatch.setattr(
        loader, "packed_answers", lambda: course / "own.json" if (course / "own.json").exists() else None
    )
    monkeypatch.chdir(found.path)
    monkeypatch.setattr(finder, "_served", None)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    finder.install()
    finder.forget()
    yield found
    finder.forget()
