"""A timeline with sliders for the schedule, ranks, microbatches, the duration of a W, and a highlighted slot."""

import html
from collections.abc import Callable

import ipywidgets as widgets

from shardlab.figures.controls import fit_names
from shardlab.figures.page import as_html, new_axes
from shardlab.figures.timeline import draw_timeline
from shardlab.figures.timeline_marks import NO_MARKS, Marks
from shardlab.pipeline_parallel.builders import BUILDERS, NAMES
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.simulation import Timeline, simulate
from shardlab.study.still import with_still

Run = Callable[[Schedule, Durations], Timeline]


def schedule_explorer(name: str = "1f1b", *, run: Run | None = None) -> widgets.VBox:
    """Choose a schedule and sizes to see its timeline, bubble and memory. F and I cost 1.

    The slider "Slot" steps through the slots in order of time and highlights what each of them waits for.
    run: a function that executes a schedule on real ranks, such as `shardlab.pipeline_parallel.run_emulated`. With it,
    a button "Run it" draws the measured timeline below the predicted one, on the same time axis.
    """
    chosen = widgets.Dropdown(options=[(NAMES[key], key) for key in BUILDERS], value=name, description="Schedule")
    ranks = widgets.IntSlider(value=4, min=1, max=8, description="Ranks")
    microbatches = widgets.IntSlider(value=8, min=1, max=32, description="Microbatches")
    weight = widgets.FloatSlider(value=1.0, min=0.0, max=2.0, step=0.1, description="W costs")
    slot = widgets.IntSlider(value=0, min=0, max=1, description="Slot")
    predicted, measured = widgets.HTML(), widgets.HTML()
    button = widgets.Button(description="Run it", disabled=run is None)

    def build() -> tuple[Schedule, Durations]:
        return BUILDERS[str(chosen.value)](ranks.value, microbatches.value), Durations(weight_gradient=weight.value)

    def redraw(_: object = None) -> None:
        """Show another schedule; clears the chosen slot and the measurement."""
        measured.value = ""
        try:
            schedule, durations = build()
        except ValueError as error:
            predicted.value = f"<p>{html.escape(str(error))}</p>"
            button.disabled = slot.disabled = True
            return
        button.disabled, slot.disabled = run is None, False
        slot.unobserve(light, names="value")
        slot.value, slot.max = 0, sum(map(len, schedule))
        slot.observe(light, names="value")
        predicted.value = _picture(schedule, durations, str(chosen.value))

    def light(_: object) -> None:
        schedule, durations = build()
        marks = Marks(slot=in_order(simulate(schedule, durations))[slot.value - 1] if slot.value else None)
        predicted.value = _picture(schedule, durations, str(chosen.value), marks=marks)

    def run_it(_: object) -> None:
        if run is None:
            return
        schedule, durations = build()
        button.disabled = True
        measured.value = "<p>Running on real ranks …</p>"
        timeline, due = run(schedule, durations), simulate(schedule, durations)
        until = max(timeline.makespan, due.makespan)
        predicted.value = _picture(schedule, durations, str(chosen.value), until=until)
        picture = _picture(schedule, durations, str(chosen.value), timeline, until=until)
        measured.value = f"{picture}<p>Measured against predicted: {timeline.makespan / due.makespan - 1:+.1%}.</p>"
        button.disabled = False

    for control in (chosen, ranks, microbatches, weight):
        control.observe(redraw, names="value")
    button.on_click(run_it)
    redraw()
    fit_names([chosen, ranks, microbatches, weight, slot])
    controls = [chosen, ranks, microbatches, weight, slot] + ([button] if run else [])
    return with_still(widgets.VBox([*controls, predicted, measured]), predicted.value)


def in_order(timeline: Timeline) -> list[tuple[int, int]]:
    """All slots as (rank, index), ordered by their beginning."""
    places = [(rank, place) for rank, slots in enumerate(timeline.schedule) for place in range(len(slots))]
    return sorted(places, key=lambda one: (timeline.begins[one[0]][one[1]], one))


def _picture(
    schedule: Schedule,
    durations: Durations,
    name: str,
    timeline: Timeline | None = None,
    *,
    until: float | None = None,
    marks: Marks = NO_MARKS,
) -> str:
    figure, ax = new_axes(10.0, 1.3 + 0.33 * len(schedule))
    drawn = draw_timeline(ax, schedule, durations, measured=timeline, name=NAMES[name], until=until, marks=marks)
    return as_html(figure, drawn)
