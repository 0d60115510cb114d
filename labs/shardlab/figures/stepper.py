"""The figure of `draw_ring_step` with a slider."""

from collections.abc import Sequence

import ipywidgets as widgets

from shardlab.costs.traffic import all_reduce_messages
from shardlab.figures.page import as_html, new_axes
from shardlab.figures.ring import draw_ring_step
from shardlab.study.still import with_still


def ring_stepper(num_ranks: int = 4, *, numbers: Sequence[Sequence[float]] | None = None) -> widgets.VBox:
    """A slider "Step" above the table of a ring all-reduce, which updates the picture and its sentence."""
    slider = widgets.IntSlider(value=0, min=0, max=all_reduce_messages(num_ranks, "ring"), description="Step")
    page = widgets.HTML()

    def redraw(step: int) -> None:
        figure, ax = new_axes(1.6 + 1.3 * num_ranks, 0.9 + 0.75 * num_ranks)
        page.value = as_html(figure, draw_ring_step(ax, num_ranks, step, numbers=numbers))

    slider.observe(lambda change: redraw(change["new"]), names="value")
    redraw(slider.value)
    return with_still(widgets.VBox([slider, page]), page.value)
