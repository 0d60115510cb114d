"""A small course with packed answers, and a learner's folder of it in which this process works."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shardlab.own import blocks, finder, loader
from shardlab.own.blocks import Block
from shardlab.study import page
from shardlab.study.folder import Folder, begin

TIMES_TWO = "def ring_reduce_scatter(chunks, *, group):\n    return [2 * one for one in chunks]"
SUM = "def ring_all_gather(chunk, sizes, *, group):\n    return [chunk]"
USES = "def ring_all_reduce(tensor, *, group):\n    return ring_reduce_scatter(tensor, group=group)"


def course_answers() -> blocks.Blocks:
    scatter = Block((), (("ring_reduce_scatter", TIMES_TWO),), "aaaaaa")
    reduce = Block((), (("ring_all_gather", SUM), ("ring_all_reduce", USES)), "bbbbbb")
    return {"week01.ring-reduce-scatter": scatter, "week01.ring-all-reduce": reduce}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    course = tmp_path / "course"
    page.write(course / "week01_rings" / "week01_rings.ipynb", page.text_of(page.v4.new_notebook()))
    page.write(course / "own.json", blocks.packed(course_answers()))
    found, _ = begin(tmp_path / "work", course)
    monkeypatch.setattr(loader, "course_folder", lambda: course)
    monkeypatch.chdir(found.path)
    monkeypatch.setattr(finder, "_served", None)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    finder.install()
    finder.forget()
    yield found
    finder.forget()
