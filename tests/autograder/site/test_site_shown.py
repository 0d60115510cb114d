"""Which parts of a page are shown, and its outputs."""

import base64

import nbformat.v4 as nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat import from_dict, v4
from shardlab.figures.page import caption

from autograder.site.languages import say
from autograder.site.outputs import WIDGETS, outputs_html
from autograder.site.pages import Page
from autograder.site.search import sections_of
from autograder.site.shown import shown, solution_lines

# ---- A reader sees no solution, no verdict, and no output before the prediction --------------------------------------


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
        "six = 6": "",  # the name is rebound to a value that needs no answer
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


# ---- Outputs as HTML: text, figures with alt text, and widgets in their initial state --------------------------------


PNG = base64.b64encode(b"a picture").decode()
SENTENCE = "In words: rank 0 waits, <3."
CAPTION = nbformat.new_output("display_data", data={"text/html": "<p>In words</p>", "text/plain": SENTENCE})


def figure(**metadata):
    return nbformat.new_output("display_data", data={"image/png": PNG}, metadata={"image/png": metadata})


def printed(text, name="stdout"):
    return nbformat.new_output("stream", text=text, name=name)


def in_words(sentence, *, folded):
    data = {"text/html": caption(sentence, folded=folded), "text/plain": sentence}
    return nbformat.new_output("display_data", data=data)


def html_of(*outputs, states=None):
    kept = []
    html = outputs_html(outputs, states or {}, lambda data: kept.append(data) or f"pictures/{len(kept)}.png")
    return BeautifulSoup(html, "html.parser"), kept


@pytest.mark.parametrize("folded", [False, True])
def test_a_figure_is_a_file_and_its_sentence_stands_below_it_once(folded):
    below = in_words(SENTENCE, folded=folded)
    soup, kept = html_of(figure(alt=SENTENCE, width=300), below, printed("and more\n"), below)
    assert kept == [b"a picture"]
    assert dict(soup.img.attrs) == {
        "class": ["figure"], "alt": SENTENCE, "width": "300", "style": "--width: 300px", "src": "pictures/1.png",
        "loading": "lazy",
    }  # fmt: skip
    assert soup.pre.text == "and more" and len(soup.find_all(class_="output")) == 2
    assert bool(soup.select("figcaption details summary")) == folded
    assert SENTENCE.removeprefix("In words: ") in soup.figcaption.text


def test_only_the_sentence_below_a_figure_is_its_caption():
    soup, _ = html_of(figure(alt=SENTENCE), CAPTION, figure(alt=SENTENCE), CAPTION, CAPTION)
    assert [one.text for one in soup.find_all("figcaption")] == [SENTENCE] * 2
    assert [one.text for one in soup.find_all("p")] == ["In words"]  # the last is no caption: it follows no figure


def test_a_figure_without_words_is_refused():
    with pytest.raises(ValueError, match=r"show it with figures\.show"):
        html_of(figure())


def test_text_is_joined_escaped_and_coloured_and_warnings_are_left_out():
    soup, _ = html_of(printed("a <b> "), printed("\x1b[31mred\x1b[0m\n"), printed("a warning", name="stderr"))
    [output] = soup.find_all("pre")
    assert output.text == "a <b> red" and soup.find(class_="ansi-red-fg").text == "red"


def test_what_has_sliders_shows_where_they_begin():
    states = {
        "box": {"children": ["IPY_MODEL_slider", "IPY_MODEL_out", "IPY_MODEL_page"]},
        "slider": {"description": "Step", "value": 0},
        "out": {"outputs": [figure(alt=SENTENCE)]},
        "page": {"_model_name": "HTMLModel", "value": f'<img alt="b" src="data:image/png;base64,{PNG}">'},
    }
    widget = nbformat.new_output("display_data", data={WIDGETS: {"model_id": "box"}, "text/plain": "VBox(...)"})
    soup, kept = html_of(widget, states=states)
    assert [image["src"] for image in soup.find_all("img")] == ["pictures/1.png", "pictures/2.png"]
    assert kept == [b"a picture"] * 2
    assert soup.find(class_="slider").text == "Step: 0" and "VBox" not in soup.text


def test_what_no_page_shows_is_refused():
    with pytest.raises(ValueError, match="shows no output of type application/pdf"):
        html_of(nbformat.new_output("display_data", data={"application/pdf": ""}))


def test_a_section_of_the_index_keeps_the_languages_apart():
    body = f"<h1>{say('week', number=1)}</h1><p>Some <b>prose</b>.</p>\n<ul><li>{say('check')}</li></ul><pre>code</pre>"
    [section] = sections_of(Page("a.html", "a", "A", say("week", number=1), body, "week"))
    assert section.page == section.heading == ("week 1", "第 1 周")
    assert section.text[0] == "Some prose. Check: in the notebook, this runs your answer"
    assert section.text[1] == "检查：在 notebook 中会运行你的答案"
