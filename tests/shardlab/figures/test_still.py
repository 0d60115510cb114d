"""A saved page has a picture where a widget was, and one that the widget hides while it lives."""

import nbformat
import pytest
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"
CELLS = {
    "stepper": "from shardlab import figures\nfigures.ring_stepper()",
    "schedule": "figures.schedule_explorer()",
    "plan": "figures.plan_explorer()",
    "sliders": (
        "from shardlab.figures import page\n\n@figures.interact(n=(1, 4))\ndef line(n=2):\n"
        "    figure, ax = page.new_axes(2, 2)\n    page.show(figure, 'In words: a line')\n    print('n is', n)"
    ),
}


@pytest.fixture(scope="module")
def saved():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    NotebookClient(notebook, kernel_name="python3", store_widget_state=False).execute()
    return dict(zip(CELLS, notebook.cells, strict=True))


@pytest.mark.parametrize("name", CELLS)
def test_the_file_has_the_picture(saved, name):
    still, widget = saved[name].outputs
    assert WIDGET in widget["data"] and WIDGET not in still["data"]
    assert "<img alt=" in still["data"]["text/html"] and "data:image/png;base64," in still["data"]["text/html"]
    assert "body:has(.live-" in still["data"]["text/html"] and still["metadata"]["shardlab_still"]
    assert "base64" not in still["data"]["text/plain"]
