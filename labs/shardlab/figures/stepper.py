"""The figure of `draw_ring_step` with a slider."""

import base64
import html
from collections.abc import Sequence

import ipywidgets as widgets

from shardlab.costs.traffic import all_reduce_messages
from shardlab.figures.page import new_axes, png
from shardlab.figures.ring import draw_ring_step
from shardlab.study.still import with_still


def ring_stepper(num_ranks: int = 4, *, numbers: Sequence[Sequence[float]] | None = None) -> widgets.VBox:
    """A slider "Step" above the table of a ring all-reduce, which updates the picture and its sentence."""
    slider = widgets.IntSlider(value=0, min=0, max=all_reduce_messages(num_ranks, "ring"), description="Step")
    page = widgets.HTML()

    def redraw(step: int) -> None:
        figure, ax = new_axes(1.6 + 1.3 * num_ranks, 0.9 + 0.75 * num_ranks)
        sentence = html.escape(draw_ring_step(ax, num_ranks, step, numbers=numbers))
        picture = base64.b64encode(png(figure)).decode()
        width = round(figure.get_size_inches()[0] * 96)
        page.value = f'<img alt="{sentence}" width="{width}" src="data:image/png;base64,{picture}"><p>{sentence}</p>'

    slider.observe(lambda change: redraw(change["new"]), names="value")
    redraw(slider.value)
    return with_still(widgets.VBox([slider, page]), page.value)
