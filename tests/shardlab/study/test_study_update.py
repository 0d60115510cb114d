"""The learner's folder on disk: created once, updated without losing answers, and reset with the attempt kept."""

import json
import os
from copy import deepcopy
from random import Random

import pytest
from random_study import first_page, given, named
from shardlab.study import page, update
from shardlab.study.folder import as_released, begin, find
from small_course import WEEK, write_page

ANSWER = "def one():\n    return 1  # mine"


def newer(course, words="# Week 1, in other words"):
    cells = first_page(Random(0))
    cells[0].source = words
    write_page(course, WEEK, named(cells))


def texts(path):
    return [cell.source for cell in page.read(path).cells]


def test_every_page_of_the_real_course_is_as_released():
    from autograder.authoring.course import ROOT

    for week in page.weeks_of(ROOT / "course"):
        given_out = page.read(page.page_path(ROOT / "course", week))
        assert as_released(given_out).cells == given_out.cells, week


def test_checksums_are_nbgraders():
    from nbgrader.utils import compute_checksum

    from autograder.authoring.course import ROOT

    marked = [cell for cell in page.read(page.page_path(ROOT / "course", "week02_ddp")).cells if page.marks(cell)]
    assert marked and all(page.checksum(cell) == compute_checksum(cell) for cell in marked)


def test_a_folder_is_laid_out_once(folder, course, write_answer):
    write_answer("week01.one", ANSWER)
    again, laid_out = begin(folder.path, course)
    assert laid_out == [] and ANSWER in texts(again.notebook(WEEK))


def test_answers_that_were_written_into_the_course_come_along(course, tmp_path):
    path = page.page_path(course, WEEK)
    notebook = page.read(path)
    notebook.cells[3].source = ANSWER
    notebook.cells.insert(1, given("my remark"))
    notebook.cells[2].source = "import numpy"
    page.write(path, page.text_of(notebook))
    folder, _ = begin(tmp_path / "work", course)
    with pytest.raises(ValueError, match="git restore"):
        update.update(folder, WEEK)
    newer(course)
    update.update(folder, WEEK)
    now = texts(folder.notebook(WEEK))
    assert {ANSWER, "my remark", "import numpy", "# Week 1, in other words"} <= set(now)


def test_an_update_brings_the_page_and_keeps_the_answer_and_the_old_page(folder, course, write_answer):
    write_answer("week01.one", ANSWER)
    before = folder.notebook(WEEK).read_text()
    assert update.update(folder, WEEK) is None
    newer(course)
    assert update.is_behind(folder, WEEK)
    done = update.update(folder, WEEK)
    assert done is not None and done.backup.read_text() == before
    now = texts(folder.notebook(WEEK))
    assert ANSWER in now and now[0] == "# Week 1, in other words"
    assert not update.is_behind(folder, WEEK) and update.update(folder, WEEK) is None


def test_an_update_without_the_laid_out_page_loses_nothing(folder, course, write_answer):
    write_answer("week01.one", ANSWER)
    folder.laid_out(WEEK).unlink()
    newer(course)
    update.update(folder, WEEK)
    now = texts(folder.notebook(WEEK))
    assert ANSWER in now and now[0] == "# Week 1, in other words" and len(now) == len(first_page(Random(0)))


def test_a_page_that_is_saved_meanwhile_is_not_overwritten(folder, course, write_answer, monkeypatch):
    newer(course)
    put_away = update._put_away

    def and_save(*paths):
        write_answer("week01.one", ANSWER)
        return put_away(*paths)

    monkeypatch.setattr(update, "_put_away", and_save)
    with pytest.raises(ValueError, match="saved during"):
        update.update(folder, WEEK)
    assert ANSWER in texts(folder.notebook(WEEK))


def test_a_write_that_fails_leaves_the_old_page(folder, course, monkeypatch):
    before = folder.notebook(WEEK).read_text()
    newer(course)
    replace = os.replace

    def full(source, target):
        if str(target) == str(folder.notebook(WEEK)):
            raise OSError("no space left")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        update.update(folder, WEEK)
    assert folder.notebook(WEEK).read_text() == before
    assert [path.name for path in folder.notebook(WEEK).parent.iterdir() if path.name.startswith(".")] == []


def test_an_exercise_is_blank_again_and_the_attempt_is_kept(folder, write_answer):
    blank = texts(folder.notebook(WEEK))
    assert update.reset_exercise(folder, "week01.one") is None
    for number in (1, 2):
        write_answer("week01.one", ANSWER)
        kept = update.reset_exercise(folder, "week01.one")
        assert kept == folder.attempts / f"week01.one-{number}.py" and kept.read_text() == ANSWER + "\n"
    assert texts(folder.notebook(WEEK)) == blank


def test_a_written_answer_is_kept_as_text(folder, write_answer):
    write_answer("week02.interview", "Because.")
    assert update.reset_exercise(folder, "week02.interview").name == "week02.interview-1.md"


def test_a_week_is_blank_again(folder, course, write_answer):
    write_answer("week01.one", ANSWER)
    kept = update.reset_week(folder, WEEK)
    assert ANSWER in texts(kept) and ANSWER not in texts(folder.notebook(WEEK))
    assert not update.is_behind(folder, WEEK)


BROKEN = {
    "no JSON": "{",
    "a list": "[]",
    "no cells": '{"nbformat": 4}',
    "old": '{"nbformat": 3, "worksheets": []}',
    "no source": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code"}]}',
    "odd cell": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [1]}',
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_page_is_named_and_left_alone(folder, course, what):
    newer(course)
    folder.notebook(WEEK).write_text(BROKEN[what])
    with pytest.raises(ValueError, match=f"{WEEK}.*cannot be read as a notebook"):
        update.update(folder, WEEK)
    assert folder.notebook(WEEK).read_text() == BROKEN[what]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda folder: folder.week("week77"), "no week is called 'week77'"),
        (lambda folder: folder.exercise("week01.t"), "week01.two, week01.three"),
        (lambda folder: folder.exercise("week01."), "does not match one exercise"),
        (lambda folder: folder.exercise("nothing"), "week02.interview"),
        (lambda folder: find(folder.path / "nowhere", folder.course), "shardlab study begin"),
        (lambda folder: begin(folder.course / "mine", folder.course), "is inside the course"),
        (lambda folder: update.reset_exercise(folder, "week01.nine"), "no cell for week01.nine"),
    ],
    ids=["week", "two exercises", "no part", "no week", "not laid out", "in the course", "no cell"],
)
def test_what_is_not_there_gets_a_sentence(folder, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong(folder)


def test_a_part_of_a_name_will_do(folder):
    assert folder.exercise("week01.tw").name == "week01.two"


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_broken_mark_is_told(folder, text):
    (folder.path / ".study" / "folder.json").write_text(text)
    with pytest.raises(ValueError, match="cannot be read"):
        find(folder.path, folder.course)


def test_a_folder_of_a_later_format_is_left_alone(folder):
    (folder.path / ".study" / "folder.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(ValueError, match="update the course first"):
        find(folder.path, folder.course)


def test_what_the_learner_chose_for_the_whole_page_stays(folder, course):
    notebook = page.read(folder.notebook(WEEK))
    notebook.metadata["kernelspec"]["name"] = "other"
    page.write(folder.notebook(WEEK), page.text_of(deepcopy(notebook)))
    newer(course)
    update.update(folder, WEEK)
    assert page.read(folder.notebook(WEEK)).metadata["kernelspec"]["name"] == "other"
