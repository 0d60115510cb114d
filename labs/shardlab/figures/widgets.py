"""Widgets: sliders around a function, a schedule, or the steps of a ring; and the oral exam on a page."""

import base64
import html
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets
from IPython.core.getipython import get_ipython
from IPython.display import HTML, display
from IPython.utils.capture import RichOutput, capture_output
from ipywidgets import interactive

from shardlab.costs.traffic import all_reduce_messages
from shardlab.figures.page import as_html, new_axes
from shardlab.figures.ring import draw_ring_step
from shardlab.figures.timeline import draw_timeline
from shardlab.figures.timeline_marks import NO_MARKS, Marks
from shardlab.pipeline_parallel.builders import BUILDERS, NAMES
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.simulation import Timeline, simulate
from shardlab.study.interview import Asked, Setting, asked_in_random_order
from shardlab.study.still import with_still

NAME_WIDTH = 80  # pixels that ipywidgets gives a name
CONTROL_WIDTH = 220  # pixels for the control behind its name, as in ipywidgets
LETTER = 7.5  # pixels of an average letter
GAP = 12  # pixels between the name and the control


def fit_names(controls: Sequence[Any]) -> None:
    """Make the names of all these widgets as wide as the longest of them, so that none is cut off."""
    longest = max((len(control.description) for control in controls), default=0)
    width = max(NAME_WIDTH, round(LETTER * longest) + GAP)
    for control in controls:
        control.style.description_width = f"{width}px"
        control.layout.width = f"{width + CONTROL_WIDTH}px"


class _Sliders(interactive):
    """Like ipywidgets' `interactive`, but collects the function's output here and sends it as the widget's state.

    Otherwise nbclient (`jupyter execute`) sends a message back for every output. If the cell's reply arrives during
    such a send, nbclient does not notice it and waits for it forever.
    """

    def update(self, *_: object) -> None:
        """Call the function with the sliders' values; show what it displays, then what it prints, then its error.

        The first call happens in the cell itself, where an error ends the cell.
        """
        first, self._called = not getattr(self, "_called", False), True
        self.kwargs = {widget._kwarg: widget.get_interact_value() for widget in self.kwargs_widgets}
        failed = []
        with capture_output() as said:
            try:
                self.f(**self.kwargs)
            except Exception as error:
                if first:
                    raise
                failed = [_error(error)]
        shown = [_displayed(output) for output in said.outputs]
        printed = [{"output_type": "stream", "name": "stdout", "text": said.stdout}] if said.stdout else []
        self.out.outputs = (*shown, *printed, *failed)
        if first:
            fit_names(self.kwargs_widgets)
            with_still(self, "".join(map(_as_html, self.out.outputs)))


def _displayed(output: RichOutput) -> dict:
    """A displayed output in the format of a notebook file, with pictures in base64."""
    data = {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in output.data.items()}
    return {"output_type": "display_data", "data": data, "metadata": output.metadata or {}}


def _as_html(output: dict) -> str:
    """An output as HTML for a page without widgets."""
    data = output.get("data", {})
    if "image/png" in data:
        about = output["metadata"].get("image/png", {})
        size = f' width="{about["width"]}"' if "width" in about else ""
        return f'<img alt="{html.escape(about.get("alt", ""))}"{size} src="data:image/png;base64,{data["image/png"]}">'
    return data.get("text/html") or f"<pre>{html.escape(data.get('text/plain') or output.get('text', ''))}</pre>"


def _error(error: Exception) -> dict:
    """An error output with the traceback that IPython would show."""
    shell = get_ipython()
    lines = (
        shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        if shell
        else traceback.format_exception(error)
    )
    return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": list(lines)}


interact = _Sliders.factory()


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


def show_questions(setting: Setting, *, seed: int, count: int = 3) -> None:
    """Display the first `count` questions of a random order, numbered, each with its answer folded below."""
    drawn = asked_in_random_order(setting, seed)[:count]
    display(HTML("".join(_question_as_html(one, number) for number, one in enumerate(drawn, 1))))


def oral_exam(setting: Setting, *, seed: int | None = None) -> widgets.VBox:
    """All questions in random order, one at a time: say your answer aloud, open the model answer, continue.

    seed: None for a different order each time.
    """
    asked = asked_in_random_order(setting, seed)
    page, onward = widgets.HTML(), widgets.Button(description="Next question")
    place = -1

    def go_on(_: object = None) -> None:
        nonlocal place
        place = (place + 1) % len(asked)
        page.value = (
            f"<p>Question {place + 1} of {len(asked)}, {asked[place].week}</p>{_question_as_html(asked[place])}"
        )

    onward.on_click(go_on)
    go_on()
    return with_still(widgets.VBox([page, onward]), page.value)


def _question_as_html(one: Asked, number: int | None = None) -> str:
    question = f"{number}. " * (number is not None) + one.question
    return (
        f"<p><b>{html.escape(question)}</b></p><details><summary>Answer (say yours first)</summary>"
        f"<p>{html.escape(one.answer)}</p></details>"
    )
