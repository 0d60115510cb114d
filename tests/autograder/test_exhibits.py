"""A code cell graded by the instructor keeps its prints and pictures, created in the sandbox and encoded here."""

import base64
import io
import json

import pytest
from PIL import Image
from tiny_course import TINY_PLOT, TINY_SOURCE, TINY_WEEK, hand_in, make_tiny_course

from autograder.grading import grade, publishing
from autograder.judging import exhibits
from autograder.judging.judge import Judge
from autograder.sandboxes.zygote import SandboxLost

PLOT = """
%matplotlib inline
import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(4, 3))
ax.plot([double(n) for n in range(5)])
print("five\\tpoints")
plt.show()
double(21)
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Ada draws, bob prints markup, cy writes nothing; graded and published. Yields the course's folder."""
    course = make_tiny_course(tmp_path_factory.mktemp("course"), TINY_SOURCE + TINY_PLOT)
    double = "print('not part of the exhibit')\ndef double(number):\n    return 2 * number"
    hand_in(course, "ada", {"week01-double": double, "week01-plot": PLOT})
    hand_in(course, "bob", {"week01-plot": "print('<script>alert(1)</script>')\n1 / 0"})
    hand_in(course, "cy", {})
    grade.grade("week01", course / "autograder" / "submitted", root=course, seed=1, workers=1)
    publishing.publish("week01", ["ada", "bob", "cy"], course)
    return course


def kept(course, student):
    folder = course / "autograder" / "verdicts" / student
    return exhibits.read(exhibits.file_of(folder / f"{TINY_WEEK}.json"))


def outputs(course, student):
    path = course / "autograder" / "autograded" / student / TINY_WEEK / f"{TINY_WEEK}.ipynb"
    return next(cell for cell in json.loads(path.read_text())["cells"] if cell["id"] == "week01-plot")["outputs"]


@pytest.mark.slow
def test_prints_the_last_value_and_the_figure_are_kept(published):
    (one,) = kept(published, "ada").values()
    assert one.text.splitlines() == ["five    points", "42"] and one.note == ""
    (png,) = one.pictures
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.format == "PNG" and picture.size == (400, 300)
        assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 2


@pytest.mark.slow
def test_they_stand_below_the_cell_and_on_the_feedback_page(published):
    text, picture = outputs(published, "ada")
    assert "42" in "".join(text["text"])
    assert list(picture["data"]) == ["image/png"]
    page = (published / "autograder" / "feedback" / "ada" / TINY_WEEK / f"{TINY_WEEK}.html").read_text()
    assert "data:image/png;base64," in page and "five    points" in page


@pytest.mark.slow
def test_an_error_is_said_and_markup_is_text(published):
    (one,) = kept(published, "bob").values()
    assert "ZeroDivisionError" in one.note and "autograder" not in one.note
    page = (published / "autograder" / "feedback" / "bob" / TINY_WEEK / f"{TINY_WEEK}.html").read_text()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page and "ZeroDivisionError" in page


@pytest.mark.slow
def test_an_unanswered_cell_is_not_run(published):
    assert kept(published, "cy") == {} and outputs(published, "cy") == []


def test_an_exhibit_of_another_text_is_not_shown():
    one = exhibits.Exhibit("42", source=exhibits.source_hash("6 * 7"))
    assert exhibits.outputs(one, "6 * 7") and not exhibits.outputs(one, "6 * 8") and not exhibits.outputs(None, "")


def test_a_lost_sandbox_is_a_sentence(monkeypatch):
    with Judge() as judge:
        monkeypatch.setattr(judge, "ask", lambda request: (_ for _ in ()).throw(SandboxLost("the machine is full")))
        one = exhibits.show(judge, {"preamble": "", "cells": [["week01.plot", "1", True]]})
    assert "the machine is full" in one.note


@pytest.mark.parametrize("text", ["", "[]", "{", '{"week01.plot": 3}', '{"week01.plot": {"text": "x"}}'])
def test_a_broken_file_holds_none(tmp_path, text):
    path = tmp_path / "exhibits.json"
    path.write_text(text)
    assert exhibits.read(path) == {}
    assert exhibits.read(tmp_path / "none") == {}


def test_written_and_read_again_and_removed(tmp_path):
    one = exhibits.Exhibit("text", [base64.b64decode("iVBORw0KGgo=")], "a note", "hash")
    exhibits.write({"week01.plot": one}, tmp_path / "folder" / "e.json")
    assert exhibits.read(tmp_path / "folder" / "e.json") == {"week01.plot": one}
    exhibits.write({}, tmp_path / "folder" / "e.json")
    assert not list((tmp_path / "folder").iterdir())
