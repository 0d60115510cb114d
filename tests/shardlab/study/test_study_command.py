"""`shardlab study` in a terminal: each command, and for every error a sentence and exit code 1."""

import subprocess
import sys
from random import Random

import pytest
from random_study import first_page, named
from shardlab import home
from shardlab.commands import cli
from shardlab.home import live
from shardlab.home.facts import home_of
from shardlab.study import folder as folders
from shardlab.study import panels, progress, records, told
from small_course import WEEK, write_page
from typer.testing import CliRunner


@pytest.fixture
def run(folder, monkeypatch, tmp_path):
    """Run a subcommand from within the learner's folder."""
    monkeypatch.setattr(folders, "course_folder", lambda: folder.course)
    monkeypatch.chdir(folder.path / WEEK)
    monkeypatch.setenv("COLUMNS", "160")

    def invoke(*arguments, code=0, typed=None):
        ended = CliRunner().invoke(cli.app, ["study", *map(str, arguments)], input=typed)
        assert ended.exit_code == code, ended.output
        return ended.output

    return invoke


def newer(course):
    cells = first_page(Random(0))
    cells[0].source = "# Week 1, in other words"
    write_page(course, WEEK, named(cells))


def test_where_a_learner_stands(run, folder):
    assert "Next: week01.one" in run()
    records.note("check", path=folder.path, exercise="week01.one", points=2, answer="a")
    records.note("check", path=folder.path, exercise="week01.two", points=0, answer="b", hint=1)
    folder.records.open("a").write("torn\n")
    newer(folder.course)
    said = run()
    assert "You were here today" in said and "week01.two" in said and "after 1 try" in said
    assert "newer text for 1 page" in said and "1 lines of" in said and "shardlab study cards" in said


def test_a_page_with_written_answers_only_is_not_marked_as_done():
    table = told._table([progress.Week("project", [], 6, 0.0)])
    assert next(iter(table.columns[0].cells)).strip() == "project"


def test_begin_lays_out_what_is_missing(run, folder, tmp_path):
    assert "created 2 pages" in run("--folder", tmp_path / "new", "begin")
    assert "Begin: week 1" in (tmp_path / "new" / "start.ipynb").read_text()
    newer(folder.course)
    assert "newer pages (1)" in run("begin")


def test_update_says_what_changed(run, folder, write_answer):
    assert "Every page is up to date" in run("update")
    write_answer("week01.one", "def one(): return 1")
    newer(folder.course)
    said = run("update", "week01")
    assert "backups/week01_rings-1.ipynb" in said and "1 changed, 0 new, 0 gone" in said
    assert "already up to date" in run("update", "week01")
    folder.notebook(WEEK).unlink()
    assert "it was missing" in run("update")


def test_an_update_goes_on_after_a_page_that_is_broken(run, folder):
    newer(folder.course)
    folder.notebook(WEEK).write_text("{")
    folder.laid_out("week02_buckets").unlink()
    said = run("update", code=1)
    assert "cannot be read as a notebook" in said and "week02_buckets: updated" in said


def test_reset_of_an_exercise_and_of_a_week(run, folder, write_answer):
    assert "already blank" in run("reset", "week01.one")
    write_answer("week01.one", "def one(): return 1")
    assert "attempts/week01.one-1.py" in run("reset", "week01.one")
    assert "attempts/week01_rings-1.ipynb" in run("reset", "week01")
    resets = [row["exercise"] for row in records.read(folder.records)[0] if row["event"] == "reset"]
    assert resets == ["week01.one", "week01.one", "week01.two", "week01.three"]


def test_hints_and_the_solution(run):
    assert "Hint 1 of 3 for week01.one: look" in run("hint", "week01.one")
    assert "There are no more" in (run("hint", "week01.one"), run("hint", "week01.one"), run("hint", "week01.one"))[-1]
    assert "The solution opens after 3" in run("solution", "week01.one", code=1)


def test_cards_are_asked_and_kept(run, folder):
    assert "No card is due" in run("cards")
    said = run("cards", "--all", "--most", "2", typed="\ny\n\nn\n")
    assert "1 of 2" in said and "see it again in 1 day" in said
    assert [row["known"] for row in records.read(folder.records)[0]] == [True, False]
    assert "answers so far are saved" in run("cards", "--all", typed="")


def test_export_and_import(run, folder, write_answer, tmp_path):
    write_answer("week01.one", "def one(): return 1")
    assert "files." in run("export", tmp_path / "mine.zip")
    assert "already exists" in run("export", tmp_path / "mine.zip", code=1)
    assert "contains work" in run("import", tmp_path / "mine.zip", code=1)
    assert "before-import-1" in run("import", "--replace", tmp_path / "mine.zip")
    assert "Imported mine.zip into" in run("--folder", tmp_path / "new", "import", tmp_path / "mine.zip")
    assert "return 1" in (tmp_path / "new" / WEEK / f"{WEEK}.ipynb").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("update", "week77"), "no week is called"),
        (("reset", "week77"), "no week is called"),
        (("hint", "week01.nine"), "does not match one exercise"),
        (("--folder", "nowhere", "hint", "week01.one"), "is not set up"),
        (("import", "nothing.zip"), "there is no file"),
    ],
)
def test_what_is_wrong_gets_a_sentence(run, arguments, sentence):
    said = run(*arguments, code=1)
    assert sentence in said and "Traceback" not in said


def test_the_home_page_and_hints_are_text_in_a_terminal(run, capsys):
    home.show()
    assert "Next: week01.one" in capsys.readouterr().out
    panels.hint("week01.one")
    assert "Hint 1 of 3" in capsys.readouterr().out
    panels.offer_hint("week01.one")
    assert capsys.readouterr().out == ""


def test_the_home_page_outside_of_a_folder_says_how_to_get_one(folder, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(folders, "course_folder", lambda: folder.course)
    folder.path.rename(tmp_path / "away")
    monkeypatch.chdir(tmp_path)
    home.show()
    assert "shardlab study begin" in capsys.readouterr().out


def test_the_buttons_of_the_home_page(run, folder):
    import ipywidgets

    refreshed = []
    buttons = live.Buttons(folder, ipywidgets, lambda: refreshed.append(True))
    row, said, open_notebooks, below = buttons.box(home_of(folder)).children
    by_name = {button.description: button for button in (*row.children[1:], *below.children)}
    assert buttons.chosen.value == "week01.one"
    buttons.chosen.value = "week01.two"
    by_name["Next hint"].click()
    assert "Hint 1 of 3 for week01.two" in said.value and refreshed == [True]
    by_name["Solution"].click()
    assert "The solution opens after 3" in said.value
    assert "Open notebooks hold" in open_notebooks.value
    by_name["End idle notebooks"].click()
    assert "No notebook was idle" in open_notebooks.value


def test_the_command_loads_no_torch():
    program = (
        "import sys, shardlab.commands.study\n"
        "from shardlab.home import live, start\n"
        "from shardlab.study import bundle, cards, hints, panels, told, update\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_text_below_a_hint_button_is_escaped():
    from rich.console import Group
    from rich.text import Text

    shown = panels.lines_as_html(lambda: Group(Text("use a<b"), Text("then stop")))
    assert "use a&lt;b</p>" in shown and shown.count("<p ") == 2
