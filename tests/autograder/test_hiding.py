"""A hidden week is not copied to students or listed; once shown, it appears, and no learner's work is lost."""

import shutil

import pytest
from shardlab.study import page
from shardlab.study.folder import begin
from typer.testing import CliRunner

from autograder.authoring import course, hiding
from autograder.cli import app

NAMES = ["week00_start", "week01_collectives", "week02_ddp"]


@pytest.fixture
def root(tmp_path):
    for name in NAMES:
        (tmp_path / "course" / name).mkdir(parents=True)
        shutil.copy(course.pages() / name / f"{name}.ipynb", tmp_path / "course" / name)
    return tmp_path


def test_a_hidden_week_comes_once_it_is_shown(root):
    pages = root / "course"
    assert hiding.change(["week02_ddp"], root=root) == ["week02_ddp"]
    folder, laid_out = begin(root / "work", pages)
    assert laid_out == folder.weeks() == NAMES[:2]
    assert not any(one.startswith("week02") for one in folder.exercises())
    with pytest.raises(ValueError, match="no week is called 'week02'"):
        folder.week("week02")
    assert hiding.change([], root=root) == ["week02_ddp"]
    assert hiding.change(["week02_ddp"], show=True, root=root) == []
    assert not (pages / page.HIDDEN).exists()
    assert begin(root / "work", pages)[1] == ["week02_ddp"]


def test_what_a_learner_has_begun_stays_when_its_week_is_hidden(root):
    folder, _ = begin(root / "work", root / "course")
    before = folder.notebook("week01_collectives").read_bytes()
    hiding.change(["week01_collectives"], root=root)
    assert begin(root / "work", root / "course")[1] == []
    assert folder.notebook("week01_collectives").read_bytes() == before
    assert folder.weeks() == ["week00_start", "week02_ddp"]


def test_one_week_is_left(root):
    with pytest.raises(ValueError, match="would hide every week"):
        hiding.change(NAMES, root=root)
    assert page.weeks_of(root / "course") == NAMES


@pytest.mark.parametrize("wrong", ["no JSON", '{"week01": true}', "[1]"])
def test_a_file_that_is_no_list_is_refused_with_a_sentence(root, wrong):
    (root / "course" / page.HIDDEN).write_text(wrong)
    with pytest.raises(ValueError, match=r"hidden\.json.*or delete it"):
        page.weeks_of(root / "course")


def test_the_command_lists_and_refuses():
    assert CliRunner().invoke(app, ["hide"]).output == "hidden: none\n"
    unknown = CliRunner().invoke(app, ["hide", "week77"])
    assert unknown.exit_code == 2 and "week77" in unknown.output
