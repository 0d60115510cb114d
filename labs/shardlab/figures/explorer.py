"""The timeline behind three sliders: which schedule, how many ranks and microbatches, how long a weight gradient."""

import base64
import html
from collections.abc import Callable

import ipywidgets as widgets

from shardlab.figures.page import new_axes, png
from shardlab.figures.timeline import draw_timeline
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.simulation import Timeline, simulate

Run = Callable[[Schedule, Durations], Timeline]


def schedule_explorer(name: str = "1f1b", *, run: Run | None = None) -> widgets.VBox:
    """Choose a schedule and sizes; timeline, bubble and memory follow. F and I cost 1.

    run: executes a schedule on real ranks, such as `run_asleep` of `shardlab.pipeline_parallel.asleep`. With it there
    is a button "Run it", which draws the measured timeline below the predicted one.
    """
    chosen = widgets.Dropdown(options=list(BUILDERS), value=name, description="Schedule")
    ranks = widgets.IntSlider(value=4, min=1, max=8, description="Ranks")
    microbatches = widgets.IntSlider(value=8, min=1, max=32, description="Microbatches")
    weight = widgets.FloatSlider(value=1.0, min=0.0, max=2.0, step=0.1, description="W costs")
    predicted, measured = widgets.HTML(), widgets.HTML()
    button = widgets.Button(description="Run it", disabled=run is None)

    def build() -> Schedule:
        return BUILDERS[str(chosen.value)](ranks.value, microbatches.value)

    def redraw(_: object = None) -> None:
        measured.value = ""
        try:
            schedule = build()
        except ValueError as error:
            predicted.value = f"<p>{html.escape(str(error))}</p>"
            button.disabled = True
            return
        button.disabled = run is None
        predicted.value = _picture(schedule, Durations(weight_gradient=weight.value), str(chosen.value))

    def run_it(_: object) -> None:
        if run is None:
            return
        schedule, durations = build(), Durations(weight_gradient=weight.value)
        button.disabled = True
        measured.value = "<p>Running on real ranks …</p>"
        timeline = run(schedule, durations)
        ratio = timeline.makespan / simulate(schedule, durations).makespan - 1
        picture = _picture(schedule, durations, str(chosen.value), timeline)
        measured.value = f"{picture}<p>Measured against predicted: {ratio:+.1%}.</p>"
        button.disabled = False

    for control in (chosen, ranks, microbatches, weight):
        control.observe(redraw, names="value")
    button.on_click(run_it)
    redraw()
    controls = [chosen, ranks, microbatches, weight] + ([button] if run else [])
    return widgets.VBox([*controls, predicted, measured])


def _picture(schedule: Schedule, durations: Durations, name: str, timeline: Timeline | None = None) -> str:
    figure, ax = new_axes(9.0, 1.3 + 0.33 * len(schedule))
    sentence = html.escape(draw_timeline(ax, schedule, durations, measured=timeline, name=name))
    picture = base64.b64encode(png(figure)).decode()
    width = round(figure.get_size_inches()[0] * 96)
    return f'<img alt="{sentence}" width="{width}" src="data:image/png;base64,{picture}"><p>{sentence}</p>'
