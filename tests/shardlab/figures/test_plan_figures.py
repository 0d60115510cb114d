"""Figures of plans: memory, goodput, meshes, layouts, published runs."""

import ipywidgets as widgets
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from shardlab import figures
from shardlab.costs import Layout, failures, find_accelerator, find_model
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.planner import pareto, plan
from shardlab.figures import draw_groups, new_axes
from shardlab.figures.maps import AXES
from shardlab.figures.measured import draw_against_published
from shardlab.figures.palette import PALETTE
from shardlab.figures.plan import layout_text, plan_pictures
from shardlab.mesh import Mesh
from shardlab.study.interview import QUESTIONS, Setting, asked_in_random_order

# ---- Memory bars: numbers, order, and sentence -----------------------------------------------------------------------


ROWS = {
    "DDP": {"parameters": 2 * 2**30, "optimizer": 12 * 2**30, "gradients": 2 * 2**30},
    "ZeRO-3": {"optimizer": 2**30},
}


def test_bars_are_stacked_in_one_order_and_end_with_their_total():
    _, ax = figures.new_axes()
    sentence = figures.draw_memory(ax, ROWS, title="It fits", limit=8 * 2**30, limit_label="a GPU", unit="GiB")
    lefts = [(bar.get_x(), bar.get_width()) for bar in ax.patches if bar.get_width()]
    assert lefts == [(0, 2), (2, 2), (4, 12), (0, 1)]
    texts = [text.get_text() for text in ax.texts]
    assert "16.0" in texts and "1.0" in texts and "a GPU, 8 GiB" in texts
    assert sentence == (
        "In words: It fits. DDP: 16.0 GiB (parameters 2.0, gradients 2.0, optimizer 12.0); "
        "ZeRO-3: 1.0 GiB (optimizer 1.0). Above a GPU (8 GiB): DDP."
    )
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["parameters", "gradients", "optimizer"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [({}, "at least one row"), ({"a": {"weights": 1}}, "use parameters"), ({"a": {"gradients": -1}}, "0 bytes")],
)
def test_bars_that_cannot_be_drawn(rows, message):
    _, ax = figures.new_axes()
    with pytest.raises(ValueError, match=message):
        figures.draw_memory(ax, rows, title="")


def test_memory_is_counted_in_the_unit_of_the_page():
    _, ax = figures.new_axes()
    sentence = figures.draw_memory(
        ax, {"DDP": {"parameters": 14e9}}, title="Too much", limit=80e9, limit_label="one GPU"
    )
    assert sentence == "In words: Too much. DDP: 14.0 GB (parameters 14.0). Above one GPU (80 GB): none."
    assert ax.get_xlabel() == "GB on one rank" and "one GPU, 80 GB" in [text.get_text() for text in ax.texts]
    with pytest.raises(ValueError, match="use GB or GiB"):
        figures.draw_memory(ax, ROWS, title="", unit="MB")


@pytest.mark.parametrize(("limit", "side"), [(1 * 2**30, "left"), (8 * 2**30, "right")])
def test_the_name_of_the_limit_stands_where_there_is_room(limit, side):
    _, ax = figures.new_axes()
    figures.draw_memory(ax, {"a rank": {"parameters": 9 * 2**30}}, title="", limit=limit)
    assert next(text for text in ax.texts if "the device" in text.get_text()).get_ha() == side


# ---- Goodput over the interval as a figure, and the oral exam as text and as a widget --------------------------------


SETTING = Setting(find_model("llama2-7b"), Layout(dp=8, num_microbatches=4, zero=1), find_accelerator("h100"), 1e12)


def test_the_curve_is_the_formula_and_its_best_is_marked():
    _, ax = figures.new_axes()
    best = failures.best_interval(3, 11_000)
    sentence = figures.draw_goodput(ax, 3, 11_000, 300, played={best: 0.9}, title="Flat")
    curve, _, dots, line = ax.lines
    minutes, shares = (np.asarray(data) for data in curve.get_data())
    assert shares == pytest.approx([failures.goodput(60 * tau, 3, 11_000, 300) for tau in minutes])
    assert np.asarray(dots.get_xdata()) == pytest.approx([best / 60])
    assert np.asarray(line.get_xdata()) == pytest.approx([best / 60] * 2)
    share = failures.goodput(best, 3, 11_000, 300)
    assert f"{best / 60:.1f} minutes, with {share:.1%} of the time as work" in sentence
    assert f"Simulated, with the formula in parentheses: 90.0% ({share:.1%})." in sentence


def test_without_played_points_nothing_is_said_of_them():
    _, ax = figures.new_axes()
    assert "Played" not in figures.draw_goodput(ax, 3, 11_000, 0, title="Flat")


def test_questions_are_shown_with_their_answers_folded(monkeypatch):
    shown = []
    monkeypatch.setattr("shardlab.figures.widgets.display", shown.append)
    figures.show_questions(SETTING, seed=3, count=2)
    (page,) = shown
    first, second = asked_in_random_order(SETTING, 3)[:2]
    assert page.data.index("1. ") < page.data.index("<details>") < page.data.index("2. ")
    assert page.data.count("<details>") == 2
    assert all(one.question[:12].split("&")[0] in page.data for one in (first, second))


def test_the_widget_asks_every_question_once_before_it_begins_again():
    exam = figures.oral_exam(SETTING, seed=5)
    page, onward = exam.children
    assert isinstance(page, widgets.HTML) and isinstance(onward, widgets.Button)
    seen = []
    for _ in QUESTIONS:
        seen.append(page.value)
        onward.click()
    assert len(set(seen)) == len(QUESTIONS) and page.value == seen[0]
    assert f"Question 1 of {len(QUESTIONS)}" in seen[0]


# ---- The picture of groups: marked boxes in its texts, hatches and sentence ------------------------------------------


MESH = Mesh(tp=8, pp=4, dp=2)


def drawn(mesh, rank, **options):
    _, ax = new_axes()
    sentence = draw_groups(ax, mesh, rank, **options)
    return sentence, [text.get_text() for text in ax.texts], ax


def test_every_rank_is_a_box_and_each_group_has_its_letter():
    sentence, texts, _ = drawn(MESH, 37)
    for rank in range(64):
        letters = "".join(
            letter for name, (_, _, letter) in AXES.items() if rank in MESH.group_of(37, name) and rank != 37
        )
        assert f"{rank} {letters}".strip() in texts
    assert "T: tp, 8 ranks on 1 node, NVLink" in texts and "P: pp, 4 ranks on 4 nodes, InfiniBand" in texts
    assert sentence == (
        "In words: 64 ranks on 8 nodes; rank 37 shares tp with 32, 33, 34, 35, 36, 37, 38, 39 (1 node, NVLink); dp "
        "with 37, 45 (2 nodes, InfiniBand); pp with 5, 21, 37, 53 (4 nodes, InfiniBand)."
    )


def test_a_rank_in_two_groups_has_a_strip_of_each():
    mesh = Mesh(tp=2, cp=2, dp=4, ep=4, etp=1, pp=2)
    _, texts, ax = drawn(mesh, 21)
    assert "20 TE" in texts and "23 CE" in texts
    strips = [patch for patch in ax.patches if patch.get_y() == 2 - 0.38 and 4 - 0.2 < patch.get_x() < 4.8]
    assert [to_hex(strip.get_facecolor()).upper() for strip in strips] == [PALETTE["forward"], PALETTE["optimizer"]]
    assert [strip.get_hatch() for strip in strips] == [AXES["tp"][1] or "", AXES["ep"][1]]


def test_only_asked_for_axes_and_those_with_neighbours_are_marked():
    assert "dp" not in drawn(MESH, 37, axes=("tp", "cp"))[0]
    assert drawn(Mesh(), 0)[0] == "In words: 1 rank on 1 node; rank 0 communicates with no other rank."
    assert "tp with 32, 33, 34, …, 63 (2 nodes, InfiniBand)" in drawn(Mesh(tp=32, dp=2), 40, ranks_per_node=16)[0]


def test_every_axis_can_be_told_without_its_colour():
    assert len({hatch for _, hatch, _ in AXES.values()}) == len({letter for *_, letter in AXES.values()}) == len(AXES)


@pytest.mark.parametrize(
    ("mesh", "rank", "options", "says"),
    [
        (MESH, 64, {}, "use 0 to 63"),
        (MESH, 0, {"axes": ("sp",)}, "use axes among"),
        (Mesh(dp=1024), 0, {}, "fewer replicas"),
        (MESH, 0, {"ranks_per_node": 64}, "at most"),
        (MESH, 0, {"ranks_per_node": 0}, "at most"),
    ],
)
def test_what_cannot_be_drawn_is_refused(mesh, rank, options, says):
    with pytest.raises(ValueError, match=says):
        drawn(mesh, rank, **options)


# ---- Plans as figures: the Pareto front, where a step's seconds go, and the widget's three bars ----------------------


H100 = ACCELERATORS["h100"]
PLANS = plan(ZOO["llama2-7b"], H100, 16, 64, best=1000)


def test_the_pareto_figure_draws_all_plans_and_names_both_ends():
    _, ax = figures.new_axes()
    sentence = figures.draw_pareto(ax, PLANS, limit=60 * 2**30)
    front = pareto(PLANS)
    assert [np.asarray(dots.get_offsets()).shape for dots in ax.collections] == [(len(PLANS), 2), (len(front), 2)]
    assert f"{len(PLANS)} layouts fit, {len(front)} are on the Pareto front" in sentence
    assert layout_text(front[0].layout) in sentence and layout_text(front[-1].layout) in sentence
    assert any("usable, 60 GiB" in text.get_text() for text in ax.texts)
    with pytest.raises(ValueError, match="at least one"):
        figures.draw_pareto(ax, [])


def test_a_step_is_stacked_and_adds_up():
    _, ax = figures.new_axes()
    sentence = figures.draw_step(ax, {"first": PLANS[0].step, "second": PLANS[1].step}, title="Where it goes")
    bars = [bar for bar in ax.patches if isinstance(bar, Rectangle)]
    ends = [max(b.get_x() + b.get_width() for b in bars if round(b.get_y() + 0.3) == row) for row in (0, 1)]
    assert ends == pytest.approx([PLANS[0].step.total, PLANS[1].step.total])
    assert sentence.startswith("In words: Where it goes. first: ") and "compute" in sentence
    with pytest.raises(ValueError, match="at least one"):
        figures.draw_step(ax, {}, title="")


def test_a_layout_in_letters():
    assert layout_text(Layout(tp=8, pp=4, virtual=2, num_microbatches=4, zero=1)) == "tp8 pp4 v2 b1 ZeRO-1"
    assert layout_text(Layout(dp=2, microbatch=4, recompute="full")) == "dp2 b4 full recompute"
    assert layout_text(Layout(pp=4, num_microbatches=4, schedule="zero-bubble")) == "pp4 b1 zero-bubble"


def test_three_pictures_of_a_layout_and_their_numbers():
    layout = Layout(tp=2, pp=2, dp=4, num_microbatches=4, sequence_parallel=True, zero=1)
    model = ZOO["llama2-7b"]
    (row,) = figures.memory_rows(model, [layout]).values()
    assert set(row) == {"parameters", "gradients", "optimizer", "activations"} and min(row.values()) > 0
    assert set(figures.axis_bytes(model, layout)) == {"tp", "pp", "dp"}
    assert figures.axis_bytes(model, Layout()) == {"none": 0.0}
    pictures = plan_pictures(model, layout, H100)
    assert len(pictures) == 3 and all(words.startswith("In words") for _, words in pictures)


@pytest.mark.slow
def test_the_widget_follows_its_sliders_and_says_what_cannot_be():
    widget = figures.plan_explorer("llama2-7b", sequences=128)
    *_, _, pipeline, data, page = widget.children
    assert page.value.count("<img") == 3
    before = page.value
    pipeline.value = 2
    assert page.value != before and page.value.count("<img") == 3
    pipeline.value = 64
    assert "32 layers cannot fill 64 stages" in page.value and "<img" not in page.value
    pipeline.value, data.value = 1, 1024
    assert "global batch of 128" in page.value
    assert sum(type(one).__name__.endswith("Slider") for one in widget.children) == 3


# ---- Published runs and predictions: every run is a dot, and the worst misses are named ------------------------------


POINTS = [("good", 10.0, 10.5), ("fair", 4.0, 3.4), ("bad", 1.0, 0.4)]


def test_dots_band_and_names():
    _, ax = figures.new_axes()
    sentence = draw_against_published(ax, POINTS, what="Step time", unit="s", num_named=2)
    dots = ax.collections[-1]
    assert np.asarray(dots.get_offsets()).tolist() == [[measured, predicted] for _, measured, predicted in POINTS]
    assert sentence == (
        "In words: Step time: 67% of 3 published runs within 20%, 15% off in the median. "
        "The worst misses: bad -60%, fair -15%."
    )
    assert [text.get_text() for text in ax.texts][:2] == ["1", "2"] and ax.get_xlabel() == "measured, s"


def test_numbers_at_one_place_stand_side_by_side_off_the_line():
    _, ax = figures.new_axes()
    points = [("a", 10.0, 5.0), ("b", 10.0, 5.0), ("c", 10.0, 20.0), ("d", 100.0, 100.0)]
    draw_against_published(ax, points, what="Memory", unit="GiB", num_named=3)
    c, a, b = (text.xyann for text in ax.texts[:3])
    assert b[0] - a[0] >= 8 and a[1] == b[1] < 0 < c[1]


@pytest.mark.parametrize("points", [[], [("a", 0.0, 1.0)], [("a", 1.0, -1.0)], [("a", float("nan"), 1.0)]])
def test_points_that_cannot_be_drawn(points):
    _, ax = figures.new_axes()
    with pytest.raises(ValueError, match="at least one point"):
        draw_against_published(ax, points, what="", unit="s")
