"""Hints and solutions inside a notebook: as text, and below a failed check as a button where widgets are available."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Collection

from rich.console import Console, Group, RenderableType
from rich.text import Text

from shardlab.study import hints, told
from shardlab.study.folder import find
from shardlab.study.still import with_still
from shardlab.study.trouble import TROUBLE, sentence

WIDTH = 116


def hint(exercise: str) -> None:
    """Show the next hint of an exercise, such as "week02.assign-buckets"."""
    _print(lambda: told.hints(hints.next_hint(find(), exercise)))


def solution(exercise: str) -> None:
    """Show the course's solution next to the learner's answer, after an honest attempt."""
    _print(lambda: told.solution(hints.solution(find(), exercise)))


def offer_hint(exercise: str, shown: Collection[int] = ()) -> None:
    """Show a button for the next hint below a failed check; does nothing outside a learner's folder.

    shown: numbers of the hints that the check has already shown, which the button leaves out.
    """
    widgets = find_widgets()
    try:
        folder = find()
    except TROUBLE:
        return
    if widgets is None:
        return
    from IPython.display import display

    display(_button("Next hint", widgets, lambda: told.hints(hints.next_unseen(folder, exercise, shown), shown)))


def lines_as_html(what: Callable[[], Group]) -> str:
    """Sentences as paragraphs, which wrap at the width of the page; an error becomes its message."""
    try:
        lines = [str(line) for line in what().renderables]
    except TROUBLE as error:
        lines = [sentence(error)]
    return "".join(f'<p style="max-width: 60em; line-height: 1.45">{html.escape(line)}</p>' for line in lines)


def _button(name: str, widgets, what: Callable[[], Group]):
    button, said = widgets.Button(description=name), widgets.HTML()
    button.on_click(lambda _: setattr(said, "value", lines_as_html(what)))
    return with_still(widgets.VBox([button, said]), f"<p>Run this cell again to see the button “{name}”.</p>")


def find_widgets():
    """The ipywidgets module if a notebook kernel can show widgets, else None."""
    try:
        import ipywidgets
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    return ipywidgets if getattr(get_ipython(), "kernel", None) is not None else None


def as_html(what: Callable[[], RenderableType]) -> str:
    """The terminal output as HTML; an error becomes its message."""
    try:
        shown = what()
    except TROUBLE as error:
        return f"<p>{html.escape(sentence(error))}</p>"
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_jupyter=False)
    console.print(shown, highlight=False)
    return console.export_html(inline_styles=True, code_format='<pre style="line-height:1.25">{code}</pre>')


def _print(what: Callable[[], RenderableType]) -> None:
    try:
        shown = what()
    except TROUBLE as error:
        shown = Text(sentence(error))
    Console(highlight=False, force_jupyter=False).print(shown)
