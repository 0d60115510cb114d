"""Widgets, their static pictures, labels, and figures that were hard to read."""

from itertools import combinations
from pathlib import Path
from unittest.mock import patch

import ipywidgets as widgets
import nbformat
import numpy as np
import pytest
from matplotlib.colors import to_hex
from nbclient import NotebookClient
from nbclient.output_widget import OutputWidget
from shardlab import figures
from shardlab.costs import traffic
from shardlab.figures.labels import keep_apart, wrap_titles
from shardlab.figures.palette import PALETTE, ink, luminance
from shardlab.figures.widgets import CONTROL_WIDTH, fit_names
from shardlab.pipeline_parallel import builders

# ---- A saved page shows a picture in place of a widget; a live widget hides it ---------------------------------------


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


def test_every_widget_of_the_package_leaves_something_in_the_file():
    sources = {path: path.read_text() for path in Path(figures.__file__).parent.parent.rglob("*.py")}
    makers = {path.name: source for path, source in sources.items() if "widgets.VBox(" in source}
    assert {"widgets.py", "live.py", "panels.py"} <= set(makers)
    for name, source in makers.items():
        assert "return with_still(" in source and "return widgets." not in source, name


# ---- Sliders in an unattended notebook: it runs to the end, and its outputs are kept ---------------------------------


CELL = """
from shardlab import figures

@figures.interact(rank=(0, 7))
def where(rank=5):
    figure, ax = figures.new_axes(2, 1)
    figures.show(figure, f"In words: rank {rank}")
"""


def run(*cells):
    """The kernel client after running the cells, and the messages it sent back to widgets."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
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


# Text fits: long titles are wrapped, overlapping labels are moved apart, and axes have enough numbers


LONG = "Activations on one GPU of the first stage: tensor parallelism alone does not fit, so something else is cut"


@pytest.mark.parametrize("width", [4, 7, 12])
def test_a_title_stays_inside_its_figure(width):
    figure, ax = figures.new_axes(width, 2.5)
    figures.draw_bars(ax, {"a rank with a long name": 5e9}, title=LONG)
    wrap_titles(figure)
    figure.draw_without_rendering()
    title = next(child for child in ax.get_children() if getattr(child, "get_text", str)() == ax.get_title(loc="left"))
    assert title.get_window_extent().x1 <= figure.bbox.width
    assert title.get_text().replace("\n", " ") == LONG
    lines = title.get_text().split("\n")
    assert (len(lines) > 1) == (width < 12)
    assert min(map(len, lines)) > max(map(len, lines)) / 2


def test_labels_at_one_place_are_moved_apart_and_others_stay():
    figure, ax = figures.new_axes(6, 3)
    labels = [ax.annotate(name, (0.5, y), (4, 0), textcoords="offset points") for name, y in (("a", 0.5), ("b", 0.51))]
    far = ax.annotate("c", (0.5, 0.9), (4, 0), textcoords="offset points")
    keep_apart(figure, [*labels, far])
    low, high = (label.get_window_extent() for label in labels)
    assert high.y0 - low.y1 > 0 and far.get_position() == (4, 0)


SAMPLES = [(m, 1e3 * 10**size, m * 1e-4 + 1e-9 * 10 ** (3 + size)) for m in (4, 12) for size in range(5)]


@pytest.mark.parametrize("scale", [1.0, 1.6])
def test_the_fit_of_week_1_has_clear_labels_and_axes(scale):
    """Its two lines end next to each other. scale: ratio of measurements to prediction."""
    figure, ax = figures.new_axes(8, 4)
    samples = [(m, num_bytes, seconds * scale) for m, num_bytes, seconds in SAMPLES]
    figures.draw_predicted_against_measured(ax, samples, 1e-4, 1e-9)
    figure.draw_without_rendering()
    extents = [text.get_window_extent() for text in ax.texts]
    assert not [1 for a, b in combinations(extents, 2) if a.overlaps(b)]
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        assert sum(low <= tick <= high for tick in axis.get_majorticklocs()) >= 2


def test_a_range_within_one_power_of_ten_has_numbers_too():
    _, ax = figures.new_axes(8, 4)
    figures.draw_predicted_against_measured(ax, [(4, 1e6, 3e-3), (4, 3e6, 4e-3)], 5e-4, 5e-10)
    low, high = ax.get_ylim()
    assert sum(low <= tick <= high for tick in ax.yaxis.get_majorticklocs()) >= 2


def test_bars_have_one_unit_on_their_axis():
    figure, ax = figures.new_axes(7, 2)
    figures.draw_bars(ax, {"a": 1.3e6, "b": 1.97e6}, title="Two bars")
    figure.draw_without_rendering()
    written = [label.get_text() for label in ax.get_xticklabels()]
    assert written[0] == "0" and {text.split()[1] for text in written[1:]} == {"MB"}


def test_published_runs_of_one_power_of_ten_have_numbers():
    _, ax = figures.new_axes(8, 3)
    figures.draw_against_published(ax, [("a", 11.0, 12.0), ("b", 60.0, 50.0)], what="Step time", unit="s")
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        assert sum(low <= tick <= high for tick in axis.get_majorticklocs()) >= 2


ALPHA, BETA = 4e-5, 5e-10


def titled(draw, *arguments, **options):
    _, ax = figures.new_axes(8, 4)
    return draw(ax, *arguments, **options), ax


def test_ring_and_tree_differ_in_color_and_dashes_in_both_figures():
    samples = [(12, 1e6, 1e-3), (12, 4e6, 3e-3), (4, 2e6, 1e-3), (4, 8e6, 4e-3)]
    names = {12: "ring", 4: "tree"}
    _, fit = titled(figures.draw_predicted_against_measured, samples, ALPHA, BETA, names=names)
    _, crossing = titled(figures.draw_ring_against_tree, 4, ALPHA, BETA)
    ways = [[(to_hex(line.get_color()), line.get_linestyle()) for line in ax.lines] for ax in (fit, crossing)]
    ring, tree = (to_hex(PALETTE["communication"]), "-"), ("#000000", "--")
    assert ways[0][:2] == [ring, tree] and ways[1][0] == ring and ways[1][2] == tree
    assert {"ring,\n12 messages", "tree,\n4 messages"} <= {text.get_text() for text in fit.texts}


@pytest.mark.parametrize("turns", [1.0, 4 / 3, 2.0])
def test_the_lines_cross_where_the_title_says_when_ranks_share_a_core(turns):
    said, ax = titled(figures.draw_ring_against_tree, 4, ALPHA, BETA, turns=turns)
    crossing = float(np.asarray(ax.lines[-1].get_xdata())[0])
    link = {"alpha": ALPHA, "beta": BETA}
    ring, tree = (traffic.all_reduce_seconds(4, crossing, **link, algorithm=name) for name in ("ring", "tree"))
    assert turns * ring == pytest.approx(tree)
    assert ("share a core" in said) == (turns > 1)


def test_a_ring_with_many_turns_never_wins():
    said, ax = titled(figures.draw_ring_against_tree, 4, ALPHA, BETA, turns=4.0)
    assert "longer than a tree for every tensor" in said
    assert ax.get_title(loc="left") == "4 ranks (4 ranks share a core): the ring never wins"


def test_paired_bars_carry_their_number_and_their_part():
    groups = {"qwZ": {"inside": 2e3, "between": 4e3}, "hpZ": {"inside": 5e3, "between": 1e3}}
    said, ax = titled(figures.draw_paired_bars, groups, title="Fewer between")
    assert said == "In words: Fewer between. qwZ: 2 KB inside, 4 KB between; hpZ: 5 KB inside, 1 KB between."
    assert [text.get_text() for text in ax.texts] == [
        *("2 KB · inside", "4 KB · between", "5 KB · inside", "1 KB · between"),
    ]
    assert [bar.get_alpha() for bar in ax.patches] == [0.4, 1.0, 0.4, 1.0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["qwZ", "hpZ"]


@pytest.mark.parametrize("groups", [{}, {"a": {}}, {"a": {"x": 1.0}, "b": {"y": 1.0}}])
def test_bars_that_are_no_pairs_are_refused(groups):
    _, ax = figures.new_axes()
    with pytest.raises(ValueError, match="bars cannot be paired"):
        figures.draw_paired_bars(ax, groups, title="")


def test_the_digits_of_a_large_dualpipe_are_upright():
    _, ax = figures.new_axes(10, 3.9)
    figures.draw_timeline(ax, builders.dualpipe(8, 20), name="DualPipe")
    numbers = [text for text in ax.texts if text.get_text().isdigit()]
    assert len(numbers) > 300 and {text.get_rotation() for text in numbers} == {0.0}


def test_a_long_name_of_a_slider_gets_room():
    short, long = (widgets.IntSlider(description=name) for name in ("Ranks", "kilobytes_per_second"))
    fit_names([short, long])
    assert short.style.description_width == long.style.description_width == "162px"
    assert long.layout.width == f"{162 + CONTROL_WIDTH}px"
    fit_names([short])
    assert short.style.description_width == "80px"


@pytest.mark.parametrize("colour", PALETTE.values())
def test_text_in_ink_can_be_read_on_white(colour):
    assert 1.05 / (luminance(ink(colour)) + 0.05) >= 4.49
