"""Sliders in a notebook that no person looks at: it runs to its end, and its outputs are kept."""

from unittest.mock import patch

import nbformat.v4 as nbformat
import pytest
from nbclient import NotebookClient
from nbclient.output_widget import OutputWidget
from shardlab import figures

CELL = """
from shardlab import figures

@figures.interact(rank=(0, 7))
def where(rank=5):
    figure, ax = figures.new_axes(2, 1)
    figures.show(figure, f"In words: rank {rank}")
"""


def run(*cells):
    """The kernel's client after the cells, and the messages that it sent back to widgets."""
    notebook = nbformat.new_notebook(cells=[nbformat.new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True)
    with patch.object(OutputWidget, "_publish_msg", autospec=True, side_effect=OutputWidget._publish_msg) as sent:
        client.execute()
    return client, sent.call_count


@pytest.mark.slow
def test_nothing_is_sent_back_whose_answer_could_be_missed():
    client, num_sent = run(CELL, "where.widget.children[0].value = 3")
    assert num_sent == 0
    [outputs] = [state["outputs"] for state in client.widget_state.values() if state.get("outputs")]
    picture, caption = (output["data"] for output in outputs)
    assert "image/png" in picture and ">In words: rank 3</p>" in caption["text/html"]
    assert outputs[0]["metadata"]["image/png"]["alt"] == caption["text/plain"] == "In words: rank 3"


def test_ipywidgets_own_sends_something_back():
    assert run(CELL.replace("@figures.interact", "@__import__('ipywidgets').interact"))[1] > 0


@pytest.mark.slow
def test_an_error_is_seen():
    client, _ = run(CELL.replace("rank=5):", "rank=5):\n    1 / 0"))
    [output] = client.nb.cells[0].outputs
    assert output["ename"] == "ZeroDivisionError"


def test_an_error_stands_in_the_box_and_the_next_value_replaces_it():
    def halves(number=2):
        print("half of", number)
        if number % 2:
            raise ValueError("an odd number")
        return number // 2

    sliders = figures.interact(halves, number=(0, 10)).widget
    sliders.children[0].value = 3
    printed, error = sliders.out.outputs
    assert printed["text"] == "half of 3\n" and (error["ename"], error["evalue"]) == ("ValueError", "an odd number")
    assert any("halves" in line for line in error["traceback"])
    sliders.children[0].value = 4
    assert [one["output_type"] for one in sliders.out.outputs] == ["stream"]
