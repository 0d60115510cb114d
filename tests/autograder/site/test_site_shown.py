"""What a reader of a week sees: no solution, no verdict, and no output before its prediction."""

import pytest
from nbformat import from_dict, v4

from autograder.site.shown import shown, solution_lines


def stream(text):
    return v4.new_output("stream", text=text)


def code(source, *outputs, **marks):
    cell = v4.new_code_cell(source, outputs=list(outputs))
    if marks:
        cell.metadata["nbgrader"] = from_dict(marks)
    return cell


def text(source):
    return v4.new_markdown_cell(source)


def exercise(source):
    return code(source, stream("from the solution"), grade_id="week01-double", grade=False, solution=True)


def check(source):
    return code(source, stream("Correct."), grade_id="week01-double-check", grade=True, solution=False)


def page(*cells):
    return v4.new_notebook(cells=list(cells))


SOLVED = page(
    text("# A page"),
    code("three = 3", stream("plain")),
    text("**Predict**, then run."),
    code("three + 1", stream("four")),
    code("three + 2", stream("five")),
    text("Write it."),
    exercise("def double(x):\n    ### BEGIN SOLUTION\n    return x + x\n    ### END SOLUTION"),
    check("cases = [1]\ncheck('week01.double', double)"),
    text("It works."),
    code("six = double(three)\nsix", stream("six")),
    code("six + 1", stream("seven")),
    code("six = 6", stream("of its own")),
    code("six", stream("again")),
)
STUB = "def double(x):\n    raise NotImplementedError()"


def released():
    given = v4.new_notebook(cells=[cell.copy() for cell in SOLVED.cells])
    given.cells[6] = exercise(STUB)
    return given


def test_an_exercise_is_blank_and_a_check_has_no_verdict():
    cells = shown(SOLVED, released())
    assert [(cell.kind, cell.source, cell.outputs) for cell in cells if cell.exercise == "week01.double"] == [
        ("exercise", STUB, ()),
        ("check", "cases = [1]\ncheck('week01.double', double)", ()),
    ]


def test_outputs_are_folded_behind_predictions_and_answers():
    folded = {cell.source: cell.folded for cell in shown(SOLVED, released()) if cell.kind == "code"}
    assert folded == {
        "three = 3": "",
        "three + 1": "predict",
        "three + 2": "predict",
        "six = double(three)\nsix": "answer",
        "six + 1": "answer",  # through another cell
        "six = 6": "",  # the name is bound again, to what needs no answer
        "six": "",
    }


def test_lines_of_a_command_are_read_too():
    notebook = page(text("# A page"), code("!shardlab doctor", stream("ok")))
    assert [cell.folded for cell in shown(notebook, notebook)] == ["", ""]


def test_pages_of_different_builds_are_refused():
    with pytest.raises(ValueError, match="different cells: build course/"):
        shown(SOLVED, page(text("# A page")))


def test_what_must_not_be_seen_is_what_the_students_page_has_not():
    assert solution_lines(SOLVED, released()) == {"return x + x"}
