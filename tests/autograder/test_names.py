"""Names chosen by untrusted users: one rule for folders, one for tables, one for display."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.judging.told import told
from autograder.reading import names
from tests.whole import HOSTILE_VALUES

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
