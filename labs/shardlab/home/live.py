"""The home page in a notebook, with buttons; without widgets the same page with commands, in a terminal its text."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from rich.console import Console

from shardlab.home import memory, shown
from shardlab.home.facts import Home, home_of
from shardlab.own.shown import summary
from shardlab.study import hints, panels, told
from shardlab.study.folder import Folder, find
from shardlab.study.still import with_still
from shardlab.study.trouble import TROUBLE, sentence

WIDTH = 100  # characters of the text for pages and terminals without HTML


def show() -> None:
    """Show the home page of the learner's folder that contains this page, or a sentence if there is none."""
    try:
        folder = find()
        home, text = home_of(folder), text_of(folder)
    except TROUBLE as error:
        print(sentence(error))
        return
    if not in_notebook():
        print(text)
        return
    from IPython.display import DisplayHandle, display

    if (widgets := panels.find_widgets()) is None:
        display(bundle(home, text, shown.commands(home.next)), raw=True)
        return
    handle = DisplayHandle()
    handle.display(bundle(home, text), raw=True)
    buttons = Buttons(folder, widgets, lambda: handle.update(bundle(home_of(folder), text_of(folder)), raw=True))
    display(buttons.box(home))


def text_of(folder: Folder) -> str:
    """The page as plain text, as `shardlab study` prints it."""
    console = Console(file=io.StringIO(), record=True, width=WIDTH, force_jupyter=False, highlight=False)
    console.print(told.overview(folder))
    return f"{console.export_text()}{summary(folder)}"


def bundle(home: Home, text: str, below: str = "") -> dict[str, str]:
    """The page for every program that reads notebooks; `below` is HTML to add at its end."""
    return {"text/html": shown.html(home) + below, "text/plain": text}


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, so that HTML can be shown."""
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


class Buttons:
    """The widgets below the cards: hint and solution of an exercise, refresh, and open notebooks."""

    def __init__(self, folder: Folder, widgets: Any, refresh: Callable[[], None]) -> None:
        self.folder, self.widgets, self.refresh = folder, widgets, refresh
        self.chosen = widgets.Dropdown(options=[*folder.exercises()], description="Exercise")
        self.said, self.open = widgets.HTML(), widgets.HTML()

    def box(self, home: Home) -> Any:
        """Lay them out with the next exercise chosen; a page without its kernel shows the commands as text."""
        if home.next is not None:
            self.chosen.value = home.next.name
        help_row = [self.chosen, self._button("Next hint", self._hint), self._button("Solution", self._solution)]
        open_row = [self._button("End idle notebooks", self._end_idle), self._button("Refresh", self._look)]
        self._look_at_memory()
        rows = self.widgets.HBox(help_row), self.said, self.open, self.widgets.HBox(open_row)
        return with_still(self.widgets.VBox([*rows]), shown.commands(home.next))

    def _button(self, name: str, action: Callable[[], None]) -> Any:
        button = self.widgets.Button(description=name, layout={"width": "auto"})
        button.on_click(lambda _: action())
        return button

    def _hint(self) -> None:
        self._say(lambda: panels.lines_as_html(lambda: told.hints(hints.next_hint(self.folder, self.chosen.value))))

    def _solution(self) -> None:
        self._say(lambda: panels.as_html(lambda: told.solution(hints.solution(self.folder, self.chosen.value))))

    def _say(self, what: Callable[[], str]) -> None:
        self.said.value = "<p>…</p>"
        self.said.value = what()
        self._look()

    def _look(self) -> None:
        self.refresh()
        self._look_at_memory()

    def _look_at_memory(self, said: str = "") -> None:
        self.open.value = shown.memory(memory.open_notebooks(self.folder.path), said)

    def _end_idle(self) -> None:
        self._look_at_memory(memory.end_idle(memory.open_notebooks(self.folder.path)))
