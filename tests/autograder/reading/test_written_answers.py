"""Names of students and written answers are data that others made."""

import csv
import io
import json
import random
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbgrader.api import Gradebook

from autograder.authoring.course import load_config
from autograder.checks.base import Reply, Task
from autograder.checks.reading import is_same, plainly, reading_check
from autograder.grading import publishing
from autograder.judging.told import told
from autograder.reading import ingest, names, written
from tests.autograder.tiny_course import TINY_SOURCE, TINY_WEEK, hand_in, make_tiny_course, write_verdict
from tests.fixed_set import HOSTILE_VALUES

# ---- Names chosen by untrusted users: one rule for folders, one for tables, one for display. -------------------------

anything = st.text(st.characters(codec=None), max_size=40) | st.text("=+-@\t\r./\\ a9,\ud800é王", max_size=300)


@pytest.mark.slow
@given(anything)
@HOSTILE_VALUES
def test_a_made_folder_name_keeps_the_rule(name):
    made = names.folder_name(name)
    assert names.not_a_student(made) is None and names.not_a_student(f"{made}-1234567890") is None
    assert names.folder_name(made) == made


@pytest.mark.slow
@given(anything)
@HOSTILE_VALUES
def test_a_name_that_keeps_the_rule_can_be_a_folder_and_be_written(name):
    reason = names.not_a_student(name)
    if reason is None:
        name.encode()
        assert "/" not in name and "\0" not in name and name not in ("", ".", "..") and name.isprintable()
    else:
        assert reason.isprintable()


@pytest.mark.parametrize("name", ["Jane Doe", "O'Brien", "ada@uni.example", "王小明", "x" * 120, "José.Núñez", "a+b"])
def test_names_that_people_and_universities_use(name):
    assert names.not_a_student(name) is None


@pytest.mark.slow
@given(anything)
@HOSTILE_VALUES
def test_what_is_shown_is_one_printable_line(text):
    assert names.printable(text).isprintable()
    names.printable(text).encode()


@pytest.mark.slow
@given(anything)
@HOSTILE_VALUES
def test_no_cell_of_a_table_begins_a_formula(text):
    written = io.StringIO()
    csv.writer(written).writerow([names.cell(text)])
    (row,) = list(csv.reader(io.StringIO(written.getvalue(), newline=""))) or [[""]]
    assert not row[0].startswith(("=", "@", "\t", "\r")) and row[0].endswith(text)
    assert row[0][:1] not in ("+", "-") or not row[0].strip("+-.,0123456789")


@pytest.mark.slow
@given(anything, st.sampled_from(["", "Hint: ", "Right: ", "Traceback (most recent call last):\n"]))
@HOSTILE_VALUES
def test_any_verdicts_text_can_be_taken_apart(text, start):
    json.dumps(vars(told(start + text)))


@pytest.mark.parametrize(
    ("file", "is_the_weeks"),
    [
        ("week01_collectives.ipynb", True),
        ("Week01.IPYNB", True),
        ("week01_collectives (1).ipynb", True),
        ("week01_collectives(2).ipynb", True),
        ("week01_collectives-1.ipynb", True),
        ("Copy of week01_collectives.ipynb", True),
        ("week01_collectives-Copy1.ipynb", True),
        ("week01_collectives copy.ipynb", True),
        ("week010.ipynb", False),
        ("week02_data_parallel.ipynb", False),
    ],
)
def test_what_browsers_and_lmss_make_of_a_name(file, is_the_weeks):
    assert names.is_named_after(file, "week01_collectives") is is_the_weeks


# ---- Written answers, and answers to code-reading questions. ---------------------------------------------------------

# A written answer whose cell lost its marks is found, or shown to the instructor; it never gets 0 points unread


SECOND = """
# %% [markdown]
# ## Another question

# %% [markdown] manual="week01.second" points=1
# ### BEGIN SOLUTION
# Also secret.
# ### END SOLUTION

# %% [markdown]
# ## The end
"""
ANSWERS = {"week01-interview": "Less than twice.", "week01-second": "More, with $x$."}
CODE = {"week01-double": "def double(number):\n    return 2 * number"}


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    return make_tiny_course(tmp_path_factory.mktemp("course"), TINY_SOURCE + SECOND)


def stripped(notebook, ids="kept"):
    """Remove the marks from every cell, as a converter does; ids: kept, new ones, or none (an older format)."""
    for number, cell in enumerate(notebook.cells):
        cell.metadata = nbformat.from_dict({})
        if ids == "new":
            cell.id = f"cell-{number}"
    if ids == "none":
        notebook.nbformat_minor = 4
        for cell in notebook.cells:
            del cell["id"]


def own_text(notebook, at, text="A note of my own."):
    notebook.cells.insert(at, nbformat.v4.new_markdown_cell(text))


CHANGES = {
    "nothing else": lambda notebook: None,
    "outputs and a title": lambda notebook: notebook.cells.__setitem__(0, nbformat.v4.new_markdown_cell("# My week")),
    "an extra code cell": lambda notebook: notebook.cells.insert(3, nbformat.v4.new_code_cell("own = 1")),
    "a note at the top": lambda notebook: own_text(notebook, 0),
    "a note between code": lambda notebook: own_text(notebook, 3),
    "a check deleted": lambda notebook: notebook.cells.pop(3),
    "an imports cell changed": lambda notebook: notebook.cells.__setitem__(
        1, nbformat.v4.new_code_cell("import math, sys")
    ),
}


@pytest.mark.parametrize("ids", ["kept", "new", "none"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("answered", [(), ("week01-interview",), ("week01-second",), tuple(ANSWERS)])
def test_written_answers_are_found_without_marks(course, tmp_path, ids, change, answered):
    given = {name: ANSWERS[name] for name in answered}

    def changed(notebook):
        CHANGES[change](notebook)
        stripped(notebook, ids)

    root = course
    path = hand_in(root, f"s{abs(hash((ids, change, answered)))}", CODE | given, changed)
    student = path.parent.parent.name
    found = ingest.read_submission(student, TINY_WEEK, root / "autograder" / "submitted", root).cells
    for name in ANSWERS:
        shown = written.is_shown_instead(found[name]) and any(own in found[name] for own in ("A note", "# My week"))
        assert found[name] == given.get(name, "*Your answer here.*") or (name not in given and shown)


def test_random_notebooks_lose_no_word_that_a_student_wrote(course):
    """Cells removed, doubled, split, moved and added at random: each answer is found, or shown to the instructor."""
    rng, page = random.Random(7), ingest.notebooks.release(TINY_WEEK, course)
    for number in range(200):
        cells = [{"cell_type": one.cell_type, "source": one.source, "metadata": {}, "id": ""} for one in page.cells]
        words = []
        for cell, ours in zip(cells, page.cells, strict=True):
            if ours.metadata.get("nbgrader", {}).get("grade_id") in ANSWERS and rng.random() < 0.8:
                cell["source"] = f"word{number}x{len(words)}"
                words.append(cell["source"])
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(cells))
            kind = rng.choice(["remove", "add", "code", "swap", "edit"])
            if kind == "remove" and cells[at]["source"] not in words:
                cells.pop(at)
            elif kind in ("add", "code"):
                text = f"word{number}y{len(words)}"
                new = {"cell_type": "markdown" if kind == "add" else "code", "source": text, "metadata": {}, "id": ""}
                cells.insert(at, new)
                words += [text] if kind == "add" else []
            elif kind == "swap":
                other = rng.randrange(len(cells))
                cells[at], cells[other] = cells[other], cells[at]
            elif kind == "edit" and cells[at]["source"] not in words:
                cells[at] = cells[at] | {"source": cells[at]["source"] + " "}
        found = written.find(cells, page.cells, set())
        assert set(found.answers) <= set(ANSWERS)
        kept = " ".join(found.answers.values())
        answers = [word for word in words if "x" in word]
        lost = [word for word in answers if word not in kept]
        told = {text.strip() for text in found.answers.values()} - {"*Your answer here.*"}
        assert not lost or len(told) == len(ANSWERS), (number, lost)  # each answer includes text by the student


def test_an_answer_that_is_not_found_waits_for_the_instructor(course):
    def change(notebook):
        stripped(notebook, "none")
        question = next(at for at, cell in enumerate(notebook.cells) if "Another question" in cell.source)
        notebook.cells[question - 1 : question + 2] = [
            nbformat.v4.new_markdown_cell(text) for text in ("Less than twice.", "and more", "then less", "at last")
        ]
        for cell in notebook.cells:
            cell.pop("id", None)

    hand_in(course, "eve", CODE, change)
    write_verdict(course, "eve", {"week01.double": {"points": 3.0, "max": 3.0, "text": "Correct."}})
    (published,) = publishing.publish("week01", ["eve"], course)
    page = published.page.read_text()
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        notebook = gradebook.find_submission_notebook(TINY_WEEK, TINY_WEEK, "eve")
        waiting = {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in notebook.grades}
    assert waiting["week01-interview"] == waiting["week01-second"] == (None, True)
    assert all(word in page for word in ("Less than twice.", "and more", "then less", "at last"))
    assert "No cell was found for the written answer" in json.dumps(page)


# ---- A reading question accepts every spelling that code has for the right answer ------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("dist.broadcast()", "broadcast"),
        ("FSDPParamGroup._record_post_forward()", "_record_post_forward"),
        ("self.comm.exchange_buffers(k, v)", "exchange_buffers"),
        ("WeightGradStore", "weightgradstore"),
        ("TP-CP-EP-DP-PP", "tp_cp_ep_dp_pp"),
        (
            ["reduce_scatter_single", "All-Reduce", "dist.all_gather_into_tensor"],
            ["reduce_scatter", "all_reduce", "all_gather"],
        ),
        (("torch.distributed._reduce_scatter_base", "all_to_all_single"), ["reduce_scatter", "all_to_all"]),
    ],
)
def test_spellings_of_one_answer(answer, expected):
    assert plainly(answer) == plainly(expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("reduce_scatter", "all_gather"),
        ("_record_post_forward", "post_forward"),
        ("grad_weight", "grad"),
        (["all_gather", "reduce_scatter"], ["reduce_scatter", "all_gather"]),
        (1, True),
        ("2", 2),
        (None, "broadcast"),
    ],
)
def test_other_answers_stay_other(answer, expected):
    assert plainly(answer) != plainly(expected)


@pytest.mark.parametrize("answer", ["1048576", " 1,048,576 ", "1_048_576", 1048576.0, 1048576])
def test_a_number_counts_as_what_it_is(answer):
    assert is_same(answer, 1048576) and is_same([answer, "x"], [1048576, "x"])


@pytest.mark.parametrize(
    ("answer", "expected"), [(True, 1), (1, True), ("one", 1), ("", 0), (1048577, 1048576), (None, 0)]
)
def test_another_number_does_not(answer, expected):
    assert not is_same(answer, expected)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"a": None, "b": None}, "Not answered yet: replace each None"),
        ({"a": "...", "b": []}, "Not answered yet: replace each None"),
        ({"a": 3, "b": None}, "Not answered yet: b. For b: look there."),
        ({"a": 4, "b": None}, "Not answered yet: b. Not correct yet: a. For a: look here."),
        ({"a": 4, "b": "send"}, "Not correct yet: a. For a: look here."),
        ({"a": "3", "b": "dist.send()"}, None),
    ],
)
def test_what_was_not_answered_is_not_called_wrong(answers, told):
    check = reading_check("x.reading", {"a": 3, "b": "send"}, {"a": "look here", "b": "look there"}, hints=())
    reply = Reply([{"answers": [{"value": {"plain": answers}}]}], None, -1, "")
    said = check.judge({}, Task(None, 1, [[]], []), reply)
    assert (said or "").startswith(told) if told else said is None
