"""Outputs as HTML: text, figures with their words, and what has sliders, standing still."""

import base64

import nbformat.v4 as nbformat
import pytest
from bs4 import BeautifulSoup

from autograder.site.outputs import WIDGETS, outputs_html

PNG = base64.b64encode(b"a picture").decode()
SENTENCE = "In words: rank 0 waits, <3."


def figure(**metadata):
    return nbformat.new_output("display_data", data={"image/png": PNG}, metadata={"image/png": metadata})


def printed(text, name="stdout"):
    return nbformat.new_output("stream", text=text, name=name)


def html_of(*outputs, states=None):
    kept = []
    html = outputs_html(outputs, states or {}, lambda data: kept.append(data) or f"pictures/{len(kept)}.png")
    return BeautifulSoup(html, "html.parser"), kept


def test_a_figure_is_a_file_and_its_sentence_stands_below_it_once():
    soup, kept = html_of(figure(alt=SENTENCE, width=300), printed(f"{SENTENCE}\nand more\n"))
    assert kept == [b"a picture"]
    assert dict(soup.img.attrs) == {
        "class": ["figure"], "alt": SENTENCE, "width": "300", "src": "pictures/1.png", "loading": "lazy"
    }  # fmt: skip
    assert soup.figcaption.text == SENTENCE and soup.pre.text == "and more"


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
    with pytest.raises(ValueError, match="no page shows an output of application/pdf"):
        html_of(nbformat.new_output("display_data", data={"application/pdf": ""}))
