"""Outputs are computed once for each content, checks are not run, and an error names the week."""

import pytest
from nbformat import from_dict, v4

from autograder.authoring import notebooks
from autograder.site import execute

WEEK = "week00_start"
MARKS = {"grade_id": "week00-x-check", "grade": True, "solution": False, "points": 1}


@pytest.fixture
def page(monkeypatch):
    """A small notebook in place of week 0."""
    check = v4.new_code_cell("cases = [1, 2]\ncheck('week00.x', cases=cases)", metadata={"nbgrader": from_dict(MARKS)})
    notebook = v4.new_notebook(
        cells=[v4.new_markdown_cell("# A page"), v4.new_code_cell("x = 20"), check, v4.new_code_cell("x + len(cases)")]
    )
    monkeypatch.setattr(notebooks, "read_source", lambda week: notebook.copy())
    return notebook


def test_a_second_time_nothing_runs_and_new_code_replaces_what_was_kept(page, tmp_path, monkeypatch):
    first = execute.executed(WEEK, folder=tmp_path)
    assert first.cells[3].outputs[0]["data"]["text/plain"] == "22"
    assert first.cells[2].source == page.cells[2].source and first.cells[2].outputs == []

    with monkeypatch.context() as without:
        without.setattr(execute, "client_of", lambda *_, **__: pytest.fail("it ran again"))
        assert execute.executed(WEEK, folder=tmp_path) == first
    page.cells[1].source = "x = 30"
    assert execute.executed(WEEK, folder=tmp_path).cells[3].outputs[0]["data"]["text/plain"] == "32"
    assert len(list(tmp_path.iterdir())) == 1


def test_prose_changes_and_outputs_stay(page):
    before = execute.key_of(page)
    page.cells[0].source = "# Another title"
    assert execute.key_of(page) == before
    page.cells[3].source += " + 1"
    assert execute.key_of(page) != before


def test_outputs_belong_to_the_package_that_computed_them(page, monkeypatch):
    before = execute.key_of(page)
    monkeypatch.setattr(execute, "_package_hash", lambda: "another")
    assert execute.key_of(page) != before


@pytest.mark.parametrize(
    ("source", "depends"),
    [
        ("from mine import zero", True),
        ("from mine.zero import step", True),
        ("    import mine", True),
        ("mine = 3", False),
        ("from mines import zero", False),
    ],
)
def test_outputs_belong_to_the_answers_that_a_page_imports(page, monkeypatch, tmp_path, source, depends):
    page.cells[3].source = source
    before = execute.key_of(page)
    other = tmp_path / "own.json"
    other.write_text("other answers")
    monkeypatch.setattr(execute.stand_ins, "path_of", lambda: other)
    assert (execute.key_of(page) != before) == depends


def test_a_page_finds_our_commands_and_shows_no_local_folder(page, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    page.cells[1].source = f"x = 20\n!command -v shardlab\nprint('{execute.ROOT}/labs')"
    outputs = execute.executed(WEEK, folder=tmp_path).cells[1].outputs
    assert "".join(output.text for output in outputs).split() == [".venv/bin/shardlab", "labs"]


def test_prose_of_today_stands_over_outputs_of_yesterday(page, tmp_path):
    execute.executed(WEEK, folder=tmp_path)
    page.cells[0].source = "# Another title"
    assert execute.executed(WEEK, folder=tmp_path).cells[0].source == "# Another title"


def test_a_cell_that_raises_is_a_sentence_and_leaves_nothing(page, tmp_path):
    page.cells[1].source = "1 / 0"
    with pytest.raises(ValueError, match=r"^week00_start does not run from top to bottom: ZeroDivisionError: division"):
        execute.execute_all([WEEK], folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_week_that_a_busy_machine_broke_is_run_again_alone(page, tmp_path):
    flag = tmp_path / "ran"
    page.cells[
        1
    ].source = f"import pathlib; x = 20; f = pathlib.Path({str(flag)!r}); n = f.exists(); f.touch(); assert n"
    told = []
    found = execute.execute_all([WEEK], folder=tmp_path / "kept", done=told.append)
    assert told == [WEEK] and found[WEEK].cells[3].outputs[0]["data"]["text/plain"] == "22"


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("cases = [1]\ncheck('week01.x', f, cases=cases)", "cases = [1]"),
        ("check('week01.x', f)", ""),
        ("sizes = dict(b=1)\nprint(sizes)", "sizes = dict(b=1)\nprint(sizes)"),
    ],
)
def test_only_the_call_of_a_check_is_left_out(source, left):
    assert execute.without_check(source) == left
