"""Merging pages, and trouble on the way."""

import errno
import json
import os
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from random_study import courses_turn, exercise, first_page, given, learners_turn, named
from shardlab.commands import cli
from shardlab.study import folder as folders
from shardlab.study import page, records
from shardlab.study.merge import merge
from shardlab.study.page import is_answer, marks, name_of
from shardlab.study.trouble import sentence
from small_course import LATER, WEEK
from typer.testing import CliRunner

# ---- A newer page with the same answers: whatever learner and course change, nothing the learner wrote is lost. ------


def sources(cells):
    return [cell.source for cell in cells]


def lost(mine, old, new):
    """The learner's texts that are gone after an update: cells whose text is in neither page."""
    theirs = set(sources(old)) | set(sources(new))
    kept = sources(merge(mine, old, new).cells)
    return [cell.source for cell in mine if cell.source not in theirs and cell.source not in kept]


@settings(max_examples=25, deadline=None)
@drawn(st.integers(0, 2**32))
def test_twenty_updates_lose_nothing(seed):
    rng = Random(seed)
    old = first_page(rng)
    mine = deepcopy(old)
    for number in range(20):
        learners_turn(mine, rng, number)
        new = courses_turn(old, rng, number)
        merged = merge(mine, old, new).cells
        assert lost(mine, old, new) == []
        assert sorted(map(name_of, new)) == sorted(
            name for cell in merged if (name := name_of(cell)) in set(map(name_of, new))
        )
        assert len({cell.id for cell in merged}) == len(merged)
        page = {name_of(cell): cell for cell in new}
        for cell in merged:
            if marks(cell) and not is_answer(cell):
                assert cell.source == page[name_of(cell)].source, "a check is the page's"
        blanks = {name_of(cell): cell.source for cell in old}
        for cell in mine:
            if is_answer(cell) and name_of(cell) in page and cell.source != blanks.get(name_of(cell)):
                assert next(one for one in merged if name_of(one) == name_of(cell)).source == cell.source
        assert_same_neighbours(mine, merged, old, new)
        old, mine = new, merged


def assert_same_neighbours(mine, merged, old, new):
    """A learner's own cell is still below the same cell, in its old or new wording."""
    pages, texts = set(map(name_of, [*old, *new])), sources(merged)
    for above, cell in pairwise(mine):
        if name_of(cell) in pages or (name_of(above) in pages and above.source not in texts):
            continue
        assert texts.count(cell.source) == 1
        now = merged[texts.index(cell.source) - 1]
        assert now.source == above.source or name_of(now) == name_of(above)


@pytest.fixture
def page_study_merge():
    return first_page(Random(0))


def changed(cells, place, source):
    new = deepcopy(cells)
    new[place].source = source
    return named(new)


def test_an_untouched_page_becomes_the_new_one(page_study_merge):
    new = changed(page_study_merge, 0, "# Week 1, in other words")
    assert sources(merge(deepcopy(page_study_merge), page_study_merge, new).cells) == sources(new)


def test_an_update_twice_is_an_update_once(page_study_merge):
    mine, new = deepcopy(page_study_merge), changed(page_study_merge, 2, page_study_merge[2].source + " and more")
    learners_turn(mine, Random(3), 0)
    once = merge(mine, page_study_merge, new).cells
    assert sources(merge(once, page_study_merge, new).cells) == sources(merge(once, new, new).cells) == sources(once)


def test_an_own_cell_follows_a_cell_in_new_words(page_study_merge):
    mine = deepcopy(page_study_merge)
    mine.insert(3, given("my remark"))
    merged = merge(mine, page_study_merge, changed(page_study_merge, 2, page_study_merge[2].source + " and more")).cells
    assert merged[2].source.endswith("and more") and merged[3].source == "my remark"


def test_a_moved_cell_stays_and_the_page_may_be_sorted_again(page_study_merge):
    mine = deepcopy(page_study_merge)
    mine.append(mine.pop(1))
    new = deepcopy(page_study_merge)
    new[2:6], new[6:10] = page_study_merge[6:10], page_study_merge[2:6]
    merged = sources(merge(mine, page_study_merge, named(new)).cells)
    assert merged[-1] == "import torch" and merged[1].startswith("### two")


def test_a_given_cell_that_both_changed_is_there_twice(page_study_merge):
    mine, new = deepcopy(page_study_merge), changed(page_study_merge, 1, "import torch\nimport math")
    mine[1].source = "import torch\nimport numpy"
    merged = merge(mine, page_study_merge, new)
    assert sources(merged.cells)[1:3] == ["import torch\nimport math", "import torch\nimport numpy"]
    assert any("yours is below it" in line for line in merged.told)


def test_a_given_cell_that_only_the_learner_changed_is_theirs(page_study_merge):
    mine = deepcopy(page_study_merge)
    mine[1].source = "import torch\nimport numpy"
    mine[1].outputs, mine[1].execution_count = [], 7
    merged = merge(mine, page_study_merge, changed(page_study_merge, 0, "# Week one"))
    assert merged.cells[1].source.endswith("numpy") and merged.cells[1].execution_count == 7


def test_an_exercise_that_is_gone_leaves_the_answer_as_an_own_cell(page_study_merge):
    mine, new = deepcopy(page_study_merge), [cell for cell in page_study_merge if "two" not in name_of(cell)]
    answer = next(cell for cell in mine if name_of(cell) == "week01-two")
    answer.source = "def two(): return 2"
    merged = merge(mine, page_study_merge, new)
    kept = next(cell for cell in merged.cells if cell.source == answer.source)
    assert not marks(kept) and any("week01.two is no longer on the page" in line for line in merged.told)


def test_an_exercise_that_is_gone_and_was_blank_goes(page_study_merge):
    new = [cell for cell in page_study_merge if "two" not in name_of(cell)]
    assert sources(merge(deepcopy(page_study_merge), page_study_merge, new).cells) == sources(new)


def test_a_new_exercise_is_told_and_a_deleted_one_comes_back_blank(page_study_merge):
    mine = [cell for cell in deepcopy(page_study_merge) if name_of(cell) != "week01-one"]
    merged = merge(mine, page_study_merge, named([*deepcopy(page_study_merge), *exercise("four")]))
    assert "week01.four is a new exercise." in merged.told
    assert {"week01-one", "week01-four"} <= set(map(name_of, merged.cells))


def test_of_two_cells_of_one_exercise_the_last_one_is_the_answer(page_study_merge):
    mine = deepcopy(page_study_merge)
    twice = deepcopy(next(cell for cell in mine if name_of(cell) == "week01-one"))
    twice.source, twice.id = "def one(): return 1", "a-copy"
    mine.append(twice)
    mine[3].source = "def one(): return 'first thoughts'"
    merged = merge(mine, page_study_merge, page_study_merge).cells
    assert next(cell for cell in merged if name_of(cell) == "week01-one").source == twice.source
    assert next(cell for cell in merged if "first thoughts" in cell.source).metadata == {}


def test_cells_that_lost_their_ids_are_known_by_their_text(page_study_merge):
    mine = deepcopy(page_study_merge)
    for number, cell in enumerate(mine):
        cell.id = f"other-{number}"
    mine[3].source = "def one(): return 1"
    new = changed(page_study_merge, 0, "# Week 1, in other words")
    assert len(merge(mine, page_study_merge, new).cells) == len(new)


def test_pictures_and_outputs_of_an_answer_stay(page_study_merge):
    mine = deepcopy(page_study_merge)
    mine[0].attachments = {"a.png": {"image/png": "AAAA"}}
    mine[0].source = "![](attachment:a.png)"
    assert merge(mine, page_study_merge, page_study_merge).cells[0].attachments == mine[0].attachments


# ---- With broken or missing course pages, a full disk or a read-only folder, every subcommand prints a sentence. -----

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
