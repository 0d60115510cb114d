"""Exhibits and feedback pages show what a student made, and run none of it."""

import base64
import io
import json
from html import escape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from autograder.grading import grade, publishing
from autograder.grading.answer_html import answer_html, formula_html
from autograder.judging import exhibits
from autograder.judging.judge import Judge
from autograder.judging.told import Told, told
from autograder.reading import ingest
from autograder.sandboxes.zygote import SandboxLost
from tests.autograder.tiny_course import TINY_PLOT, TINY_SOURCE, TINY_WEEK, hand_in, make_tiny_course

# ---- A code cell graded by the instructor keeps its prints and pictures, created in the sandbox and encoded here. ----

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


# ---- The feedback page, and how it formats values. -------------------------------------------------------------------

# ---- The feedback page loads nothing, whatever a student wrote; formulas are still readable --------------------------


LOADING = {"src", "srcset", "data", "poster", "background", "action", "formaction", "ping", "xlink:href", "manifest"}
ACTIVE = {"script", "link", "iframe", "object", "embed", "base", "form", "svg", "video", "audio", "img", "style"}
HOSTILE = r"""
Half of $\frac{2(n-1)}{n} S$ bytes, $\text{<img src=https://evil.example/a>}$ and
$\style{background:url(//evil.example)}{y}$.

$$\sum_{i=1}^{n} x_i^2$$

![a picture](https://evil.example/1.png) ![ref][r] \\![escaped](https://evil.example/2.png) ![kept](attachment:x.png)

<img src="https://evil.example/3.png"> <style>@import "https://evil.example/4.css";</style>

```mermaid
<script src="https://evil.example/5.js"></script>
```

[the paper](https://arxiv.org/abs/1) [bad](javascript:alert(1)) `![code](https://evil.example/6.png)`

[r]: https://evil.example/7.png
"""


class Loads(HTMLParser):
    """Collects what a browser would fetch or run: everything except plain links and embedded pictures."""

    def __init__(self, page):
        super().__init__()
        self.found, self.styles, self.policy, self.text = [], [], "", []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag == "meta" and named.get("http-equiv"):
            self.policy = named["content"]
        local = tag == "img" and (named.get("src") or "").startswith("data:image/png;base64,")
        if tag in ACTIVE - {"style"} and not local:
            self.found.append((tag, named))
        self.found += [(tag, name) for name in LOADING & set(named) if not local]
        self.found += [(tag, name) for name in named if name.startswith("on") or (name == "href" and tag != "a")]
        self.styles += [value for name, value in attrs if name == "style"]

    def handle_data(self, data):
        self.text.append(data)
        if self.lasttag == "style":
            self.styles.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    course = make_tiny_course(tmp_path_factory.mktemp("course"))
    hand_in(course, "ada", {"week01-interview": HOSTILE, "week01-double": "print('<img src=https://evil.example/8>')"})
    (published,) = publishing.publish("week01", ["ada"], course)
    return published.page.read_text()


def test_the_page_loads_and_runs_nothing(page):
    loads = Loads(page)
    assert loads.found == []
    assert not any("url(" in style or "@import" in style for style in loads.styles)
    assert "default-src 'none'" in loads.policy and page.index("Content-Security-Policy") < page.index("<style")
    assert TINY_WEEK in page


def test_formulas_links_and_code_can_be_read(page):
    assert "<mfrac>" in page and "<munderover>" in page and 'display="block"' in page
    assert '<a href="https://arxiv.org/abs/1">the paper</a>' in page
    said = "".join(Loads(page).text)
    assert "![code](https://evil.example/6.png)" in said and '<img src="https://evil.example/3.png">' in said
    assert r"\style{background:url(//evil.example)}{y}" in said


def test_the_instructors_view_of_a_written_answer_shows_no_image_either(tmp_path):
    course = make_tiny_course(tmp_path)
    submission = ingest.Submission("ada", TINY_WEEK, {"week01-interview": HOSTILE})
    source = ingest.restore(submission, course).cells[-1].source
    assert "![" not in source and "<img" not in source


PIECES = r"""
    ![ ]( ](http://x) $ $$ \ ! [ ] <img~src=http://x> ``` ```mermaid~ ~ ~~ \text{ \href{ \style{ } { ^ _ & <b> ` | - > *
    javascript: &lt; \begin{a} \end{a} #~ [r]:~http://x <http://x> a http://x ![x](data:,) " ' \( \) \[ \]
"""
pieces = st.sampled_from([" ", "\n\n", *(piece.replace("~", "\n") for piece in PIECES.split())])


@pytest.mark.slow
@given(st.lists(pieces, max_size=25).map("".join))
@settings(max_examples=1000, deadline=None)
def test_no_written_answer_makes_a_page_load_anything(written):
    for source in (written, ingest._harmless(written)):
        loads = Loads(answer_html(source))
        assert loads.found == [] and loads.styles == []


BAD = ["{" * 900, r"\frac" * 200, "a" * 5000, r"\unknown&", "\ud800", r"\href{javascript:a}{x}", r"\text{<b>x</b>}"]


@pytest.mark.parametrize("tex", BAD)
def test_a_formula_that_cannot_be_drawn_is_shown_as_it_was_written(tex):
    assert formula_html(tex) == f'<code class="tex">{escape(tex)}</code>'


@pytest.mark.slow
def test_a_very_long_answer_is_cut_on_the_page(tmp_path):
    course = make_tiny_course(tmp_path)
    hand_in(course, "ada", {"week01-interview": "[" * 200_000, "week01-double": "# 中\n" * 100_000})
    (published,) = publishing.publish("week01", ["ada"], course)
    assert published.page.stat().st_size < 3_000_000 and "(cut)" in published.page.read_text()


def test_nesting_without_end_is_shown():
    assert "&gt;" in answer_html(">" * 3000) or "<blockquote>" in answer_html(">" * 3000)


# ---- A verdict's text is split into what a page shows: sentences, further lines, hints -------------------------------


def test_a_sentence_with_its_hint():
    text = "With 2 ranks, 4 numbers: number 3 is 0.\nRight: all-gather.\nHint: Send what you received."
    assert told(text) == Told(
        ["With 2 ranks, 4 numbers: number 3 is 0."], hint="Send what you received.", right="all-gather."
    )


def test_lines_that_explain_a_sentence_are_its_detail():
    text = "Deadlock: 2 of 2 ranks wait.\n  rank 0 waits in send\n  rank 1 waits in send\nHint: Receive first."
    parts = told(text)
    assert parts.sentences == ["Deadlock: 2 of 2 ranks wait."]
    assert parts.detail == text.rsplit("\n", 1)[0] and parts.hint == "Receive first."


def test_the_last_line_of_a_traceback_is_a_sentence():
    lines = ["Rank 0 raised.", "Traceback (most recent call last):", '  File "x", line 1', "    1 / 0"]
    text = "\n".join([*lines, "ZeroDivisionError: by zero"])
    assert told(text).sentences == ["Rank 0 raised.", "ZeroDivisionError: by zero"]
    assert "line 1" in told(text).detail


def test_nothing_was_said():
    assert told("") == Told([])
