""""""

import json
import os

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell

from autograder.reading import ingest, notebook_file
from tests.autograder.tiny_course import TINY_WEEK, hand_in, make_tiny_course
from tests.fixed_set import HOSTILE_VALUES

# ---- Submissions are data: anything a student submits becomes cells and sentences, never an exception. ---------------

DOUBLE = "def double(number):\n    return 2 * number"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return make_tiny_course(tmp_path_factory.mktemp("course"))


@pytest.fixture
def student(request):
    return request.node.name.replace("[", "-").replace("]", "").replace("/", "-")[:60]


def read(course, student):
    return ingest.read_submission(student, "week01", course / "autograder" / "submitted", course)


def put(course, student, data):
    path = course / "autograder" / "submitted" / student / TINY_WEEK / f"{TINY_WEEK}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def notebook_of(*cells):
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)}).encode()


def code(source, grade_id=None, kind="code"):
    marks = {"nbgrader": {"grade_id": grade_id, "solution": True}} if grade_id else {}
    return {"cell_type": kind, "source": source, "metadata": marks, "outputs": [], "execution_count": None}


def test_answers_and_own_cells_are_taken_and_nothing_else(course, student):
    def add_own_cells(notebook):
        notebook.cells.insert(0, new_code_cell("HELPER = 2"))
        notebook.cells.append(new_code_cell("print(HELPER)"))
        for cell in notebook.cells:
            if cell.get("id", "").endswith("-check"):
                cell.source = "pass  # let me through"

    hand_in(course, student, {"week01-double": DOUBLE}, add_own_cells)
    got = read(course, student)
    assert got.cells["week01-double"] == DOUBLE
    assert set(got.cells) == {"week01-double", "week01-triple", "week01-interview"}
    assert got.extra == ["HELPER = 2", "print(HELPER)"] and got.notes == [] and got.found


def test_restore_is_our_notebook_with_the_answers(course, student):
    def cheat(notebook):
        for cell in notebook.cells:
            if "nbgrader" in cell.metadata:
                cell.metadata.nbgrader.update(points=1000, schema_version=99, locked=False)
            if cell.id.endswith("-check"):
                cell.source = "pass"
        notebook.metadata.kernelspec.name = "evil"

    hand_in(course, student, {"week01-double": DOUBLE}, cheat)
    restored = {cell.id: cell for cell in ingest.restore(read(course, student), course).cells}
    assert restored["week01-double"].source == DOUBLE
    assert restored["week01-double-check"].source == "assert double(2) == 4"
    assert restored["week01-double-check"].metadata.nbgrader.points == 3


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("<script>alert(1)</script> a < b", "&lt;script>alert(1)&lt;/script> a < b"),
        ("[x](javascript:alert(1))", r"[x]\(javascript:alert(1))"),
        ("[x]( \n javascript:alert(1))", "[x]\\( \n javascript:alert(1))"),
        ("[x]: data:text/html,1", r"[x]\: data:text/html,1"),
        ("see [the paper](https://arxiv.org/abs/1)", "see [the paper](https://arxiv.org/abs/1)"),
    ],
)
def test_written_answers_cannot_run_in_the_graders_browser(course, written, shown):
    submission = ingest.Submission("ada", TINY_WEEK, {"week01-interview": written})
    assert ingest.restore(submission, course).cells[-1].source == shown


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b'{"cells": [', "not a notebook, JSON error at line 1"),
        (b"", "not a notebook, JSON error"),
        (b"\xff\xfe\x00", "byte 0 is not UTF-8"),
        (b"[]", "its top level is not an object"),
        (b"{}", "no list of cells"),
        (b'{"cells": {"a": 1}}', "no list of cells"),
        (b'{"cells": [1]}', "cell 1 is not an object"),
        (notebook_of(code("ok"), code(7)), "cell 2: its source is not text"),
        (notebook_of(code("x", kind="magic")), "cell 1: its type is not"),
        (b"[" * 100_000, "nested more than 40 levels"),
        (b'{"cells": [], "a": ' + b'{"a":' * 50 + b"1" + b"}" * 50 + b"}", "nested more than 40 levels"),
        (b'{"cells": [' + b"1" * 10_000 + b"]}", "a number that is too long"),
        (b'{"cells": "' + b"x" * 5_000_000 + b'"}', "5.0 MB, but at most 5 MB"),
    ],
)
def test_a_broken_notebook_gives_one_sentence(course, tmp_path, data, sentence):
    student = tmp_path.name
    put(course, student, data)
    got = read(course, student)
    assert got.cells == {} and len(got.notes) == 1 and sentence in got.notes[0] and "\n" not in got.notes[0]
    ingest.restore(got, course)


def test_brackets_in_strings_are_not_depth(course, student):
    put(course, student, notebook_of(code("[" * 500 + '"\\"' + "{" * 500, "week01-double")))
    assert read(course, student).cells["week01-double"].startswith("[[[")


def test_a_link_a_pipe_or_a_linked_folder_is_refused(course, tmp_path):
    solution = course / "solutions" / TINY_WEEK / f"{TINY_WEEK}.py"
    submitted = course / "autograder" / "submitted"
    linked = put(course, "linker", b"")
    linked.unlink()
    linked.symlink_to(solution)
    os.mkfifo(put(course, "piper", b"").with_suffix(".pipe"))
    (submitted / "piper" / TINY_WEEK / f"{TINY_WEEK}.pipe").rename(
        submitted / "piper" / TINY_WEEK / f"{TINY_WEEK}.ipynb"
    )
    hand_in(course, "honest", {"week01-double": DOUBLE})
    (submitted / "thief").symlink_to(submitted / "honest")
    for student in ("linker", "piper", "thief", "../submitted/honest"):
        got = read(course, student)
        assert got.cells == {} and "could not be read" in got.notes[0], student


def test_not_submitted_is_not_zero_and_a_wrong_name_is_named(course):
    assert not read(course, "nobody").found
    put(course, "misnamed", notebook_of()).rename(
        course / "autograder" / "submitted" / "misnamed" / TINY_WEEK / "Untitled.ipynb"
    )
    got = read(course, "misnamed")
    assert not got.found and "found Untitled.ipynb" in got.notes[0]


RENAMED = [
    f"{TINY_WEEK} (1).ipynb",
    f"{TINY_WEEK}-1.ipynb",
    f"Copy of {TINY_WEEK}.ipynb",
    "week01.ipynb",
    "my answers.ipynb",
]


@pytest.mark.parametrize("name", RENAMED)
def test_a_lone_notebook_of_another_name_is_taken(course, tmp_path, name):
    student = tmp_path.name
    path = hand_in(course, student, {"week01-double": DOUBLE})
    path.rename(path.with_name(name))
    (path.parent / "notes.ipynb").write_bytes(notebook_of(code("1 + 1")))
    (path.parent / "broken.ipynb").write_bytes(b"{")
    got = read(course, student)
    assert got.found and got.cells["week01-double"] == DOUBLE
    assert got.notes == [f"{name} was read, because there is no {TINY_WEEK}.ipynb."]


def test_of_several_notebooks_of_other_names_none_is_guessed(course):
    path = hand_in(course, "several", {"week01-double": DOUBLE})
    for name in RENAMED[:2]:
        path.with_name(name).write_bytes(path.read_bytes())
    path.unlink()
    got = read(course, "several")
    assert got.found and got.cells == {} and f"keep one: {', '.join(sorted(RENAMED[:2]))}" in got.notes[0]


def test_notes_are_few_and_short_whatever_the_cells_are_called(course, student):
    put(course, student, notebook_of(*(code("x", f"\ud800\x1b[2J{number}" * 200) for number in range(500))))
    got = read(course, student)
    assert (len(got.notes) <= ingest.MOST_NOTES + 1 and "480" in got.notes[-1]) or "more remarks" in got.notes[-1]
    assert all(note.isprintable() and len(note) <= ingest.MOST_NOTE for note in got.notes)


def test_more_cells_than_a_notebook_has_are_not_read(course, student):
    put(course, student, notebook_of(*[code("1")] * (notebook_file.MAX_CELLS + 1)))
    assert "5,001 cells, but at most 5,000" in read(course, student).notes[0]


@pytest.mark.parametrize("name", ["..", ".", "", ".hidden", "a/b", "\udcff", "a\x00b", "x" * 300])
def test_a_name_that_is_no_students_is_never_a_path(course, name):
    got = read(course, name)
    assert got.cells == {} and "not a student's" in got.notes[0]


def test_notes_say_what_was_missing_twice_there_or_unknown(course, student):
    put(
        course,
        student,
        notebook_of(
            code("first", "week01-double"),
            code("last", "week01-double"),
            code("as text", "week01-triple", kind="raw"),
            code("x", "week07-other\nsecond line"),
        ),
    )
    got = read(course, student)
    assert got.cells == {"week01-double": "last", "week01-triple": "as text"}
    said = "\n".join(got.notes)
    assert "week01-double occurs 2 times; the last one counts" in said
    assert "week01-triple was changed to a raw cell" in said
    assert "week07-other second line does not belong to an exercise" in said
    assert "week01-interview is missing" in said


def test_source_as_lines_old_notebooks_and_odd_characters_are_read(course):
    put(course, "lines", notebook_of(code(["a\n", "b"], "week01-double")))
    assert read(course, "lines").cells["week01-double"] == "a\nb"
    cell = code("", "week01-double") | {"input": "old"}
    old = {"nbformat": 3, "worksheets": [{"cells": [cell]}, 5], "metadata": {}}
    put(course, "old", json.dumps(old).encode())
    assert read(course, "old").cells["week01-double"] == "old"
    put(course, "surrogate", notebook_of(code("x = '\ud800'", "week01-double")))
    assert read(course, "surrogate").cells["week01-double"] == "x = '?'"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from(["cell_type", "source", "metadata", "outputs", "id"])
anything = st.text(st.characters(codec=None), max_size=8)  # lone surrogates too
grade_ids = st.fixed_dictionaries({"grade_id": st.sampled_from(["week01-double", "week01-double-check"]) | anything})
odd_cells = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw"]) | json_values, "source": anything | json_values},
    optional={"metadata": st.fixed_dictionaries({}, optional={"nbgrader": json_values | grade_ids}) | json_values},
)


notebook_like = st.fixed_dictionaries(
    {"cells": st.lists(odd_cells, max_size=4) | json_values, "nbformat": st.sampled_from([3, 4])}
)


@given(notebook_like)
@settings(max_examples=100, deadline=None)
def test_what_was_read_makes_a_notebook_again(course, content):
    try:
        cells = ingest.parse(json.dumps(content).encode())
    except ingest.NotReadable:
        return
    nbformat.writes(ingest.restore(ingest.take_cells(cells, "ada", TINY_WEEK, course), course)).encode()


@pytest.fixture
def read_once(course):
    """Compare thousands of submissions with a single copy of our notebook."""
    ours = ingest.notebooks.release(TINY_WEEK, course)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest.notebooks, "release", lambda *_: ours)
        yield


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("read_once")
@given(notebook_like)
@settings(HOSTILE_VALUES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_json_makes_the_reader_fail(course, content):
    try:
        cells = ingest.parse(json.dumps(content).encode())
    except ingest.NotReadable as reason:
        assert str(reason).isprintable()
        return
    submission = ingest.take_cells(cells, "ada", TINY_WEEK, course)
    json.dumps([submission.cells, submission.notes], ensure_ascii=False).encode()  # must be writable to a file


@pytest.mark.slow
@given(st.binary(max_size=60) | st.binary(max_size=30).map(lambda noise: b'{"cells": [' + noise + b"]}"))
@HOSTILE_VALUES
def test_no_bytes_make_the_reader_fail(data):
    try:
        ingest.parse(data)
    except ingest.NotReadable as reason:
        assert str(reason).isprintable()
