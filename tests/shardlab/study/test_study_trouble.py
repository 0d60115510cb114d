"""With broken or missing course pages, a full disk or a read-only folder, every subcommand prints a sentence."""

import errno
import json
import os
from pathlib import Path

import pytest
from shardlab.commands import cli
from shardlab.study import folder as folders
from shardlab.study import page, records
from shardlab.study.trouble import sentence
from small_course import LATER, WEEK
from typer.testing import CliRunner

SUBCOMMANDS = {
    "overview": (),
    "begin": ("begin",),
    "update": ("update",),
    "reset week": ("reset", "week01"),
    "reset exercise": ("reset", "week01.one"),
    "hint": ("hint", "week01.one"),
    "solution": ("solution", "week01.one"),
    "cards": ("cards",),
    "export": ("export", "mine.zip"),
    "import": ("import", "nothing.zip"),
}


def without(key):
    def break_it(notebook):
        for cell in notebook["cells"]:
            cell["metadata"].get("nbgrader", {}).pop(key, None)

    return break_it


BROKEN = {
    "no cells": lambda notebook: notebook.pop("cells"),
    "cells are a number": lambda notebook: notebook.update(cells=3),
    "a cell is a number": lambda notebook: notebook["cells"].append(3),
    "metadata is a list": lambda notebook: notebook["cells"][0].update(metadata=[1]),
    "no grade_id": without("grade_id"),
    "no points": without("points"),
    "points are text": lambda notebook: [
        cell["metadata"]["nbgrader"].update(points="two")
        for cell in notebook["cells"]
        if "nbgrader" in cell["metadata"]
    ],
}
BYTES = {"empty": b"", "torn": b'{"cells": [', "no text": b"\xff\xfe\x00", "nested": b"[" * 100_000, "null": b"null"}


@pytest.fixture
def run(folder, monkeypatch):
    """Run every subcommand and return the output of each. None may end in a traceback."""
    monkeypatch.setattr(folders, "course_folder", lambda: folder.course)
    monkeypatch.chdir(folder.path)

    def invoke(*arguments):
        ended = CliRunner().invoke(cli.app, ["study", *arguments])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), (arguments, ended.exception)
        return ended

    return invoke


def break_page(course: Path, how: str) -> None:
    path = page.page_path(course, LATER)
    if how in BYTES:
        path.write_bytes(BYTES[how])
        return
    notebook = json.loads(path.read_text())
    BROKEN[how](notebook)
    path.write_text(json.dumps(notebook))


@pytest.mark.parametrize("how", [*BROKEN, *BYTES])
def test_every_subcommand_names_a_broken_page_of_the_course(run, folder, how):
    before = folder.notebook(WEEK).read_bytes()
    break_page(folder.course, how)
    said = {name: run(*arguments) for name, arguments in SUBCOMMANDS.items()}
    for name in ("overview", "reset exercise", "hint"):  # these read every page of the course
        assert said[name].exit_code == 1 and f"{LATER}.ipynb" in said[name].output, (name, said[name].output)
    assert page.read(folder.notebook(WEEK)).cells
    assert before in {one.read_bytes() for one in [folder.notebook(WEEK), *folder.attempts.glob("*.ipynb")]}


@pytest.mark.parametrize("name", ["hints.json", "hidden.json"])
@pytest.mark.parametrize("content", ["", "[", "3", '{"week01.one": 3}'])
def test_other_broken_files_of_the_course(run, folder, name, content):
    (folder.course / name).write_text(content)
    for arguments in SUBCOMMANDS.values():
        run(*arguments)
    assert name in run("hint", "week01.one").output


def test_a_missing_page_is_named(run, folder):
    folder.notebook(WEEK).unlink()
    for what in ("week01", "week01.one"):
        ended = run("reset", what)
        assert ended.exit_code == 1 and "there is no notebook" in ended.output


def test_a_page_that_is_no_notebook_is_put_away_by_reset(run, folder):
    folder.notebook(WEEK).write_bytes(b"\xff\x00 not a notebook")
    assert run("reset", "week01").exit_code == 0
    assert (folder.attempts / f"{WEEK}-1.ipynb").read_bytes() == b"\xff\x00 not a notebook"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("what", ["week01", "week01.one"])
def test_reset_loses_nothing_wherever_the_disk_fails(run, folder, write_answer, monkeypatch, number, after, what):
    write_answer("week01.one", "def one(): return 'mine'")
    plain, writes = os.replace, []

    def failing(source, target):
        writes.append(target)
        if len(writes) > after:
            raise OSError(number, os.strerror(number), str(target))
        plain(source, target)

    monkeypatch.setattr(os, "replace", failing)
    ended = run("reset", what)
    assert ended.exit_code == 1 and "No answer is lost" in ended.output and "run the command again" in ended.output
    kept = [folder.notebook(WEEK), *folder.attempts.rglob("*.*"), *folder.notebook(WEEK).parent.rglob("*.ipynb")]
    assert any("return 'mine'" in one.read_text() for one in kept)
    assert page.read(folder.notebook(WEEK)).cells and not [*folder.path.rglob(".*.ipynb-*")]


def test_what_could_not_be_recorded_is_said(run, monkeypatch):
    monkeypatch.setattr(records, "_append", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
    assert "This was not recorded" in run("hint", "week01.one").output


def test_a_sentence_has_the_file_and_the_remedy():
    told = sentence(PermissionError(errno.EACCES, "Permission denied", "/a/page.ipynb"))
    assert told.startswith("/a/page.ipynb: you have no permission to read or write there") and "--folder" in told
