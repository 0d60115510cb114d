"""The oral exam on a page: questions with folded answers, and a widget that asks them one at a time."""

import html

import ipywidgets as widgets
from IPython.display import HTML, display

from shardlab.study.interview import Asked, Setting, asked_in_random_order
from shardlab.study.still import with_still


def show_questions(setting: Setting, *, seed: int, count: int = 3) -> None:
    """Display the first `count` questions of a random order, numbered, each with its answer folded below."""
    drawn = asked_in_random_order(setting, seed)[:count]
    display(HTML("".join(_as_html(one, number) for number, one in enumerate(drawn, 1))))


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
        page.value = f"<p>Question {place + 1} of {len(asked)}, {asked[place].week}</p>{_as_html(asked[place])}"

    onward.on_click(go_on)
    go_on()
    return with_still(widgets.VBox([page, onward]), page.value)


def _as_html(one: Asked, number: int | None = None) -> str:
    question = f"{number}. " * (number is not None) + one.question
    return (
        f"<p><b>{html.escape(question)}</b></p><details><summary>Answer (say yours first)</summary>"
        f"<p>{html.escape(one.answer)}</p></details>"
    )
