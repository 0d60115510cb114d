"""Plans as figures: the front that nothing beats, where a step's seconds go, and the widget's three bars."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle
from shardlab import figures
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.model_zoo import ZOO
from shardlab.costs.planning.planner import pareto, plan
from shardlab.figures.plan import layout_text
from shardlab.figures.plan_sliders import plan_pictures

H100 = ACCELERATORS["h100"]
PLANS = plan(ZOO["llama2-7b"], H100, 16, 64, best=1000)


def test_the_pareto_figure_draws_all_plans_and_names_both_ends():
    _, ax = figures.new_axes()
    sentence = figures.draw_pareto(ax, PLANS, limit=60 * 2**30)
    front = pareto(PLANS)
    assert [np.asarray(dots.get_offsets()).shape for dots in ax.collections] == [(len(PLANS), 2), (len(front), 2)]
    assert f"{len(PLANS)} layouts fit, {len(front)} are beaten by none" in sentence
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
    assert len(pictures) == 3 and all(
        data.startswith(b"\x89PNG") and words.startswith("In words") for data, words in pictures
    )


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
