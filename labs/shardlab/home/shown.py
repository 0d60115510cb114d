"""The home page as HTML without scripts, readable on light and dark pages of JupyterLab and VS Code.

Every text is escaped: names of files and lines of records are the learner's, or came with an import. Only styles are
used that JupyterLab keeps on a page that it does not trust, because no cell of it has run on this machine yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from shardlab.home.facts import Card, Home, Module, Next
from shardlab.home.memory import IDLE_SECONDS, OpenNotebook
from shardlab.study.told import ALL_RIGHT, time

GREEN, BLUE = "#00714f", "#0072b2"
_TEXT = "color: var(--jp-ui-font-color1, inherit)"
_LINK = "color: var(--jp-content-link-color, var(--vscode-textLink-foreground, inherit))"
_BOX = "border: 1px solid rgba(127, 127, 127, .5); border-radius: 6px; padding: .6em .9em"
_GRID = "display: grid; grid-template-columns: repeat(auto-fill, minmax(15em, 1fr)); gap: .7em; margin: .8em 0"
_SMALL = "font-size: .9em; opacity: .85"
ABOUT_ENDING = (
    f"The button ends the Python behind notebooks that were idle for {IDLE_SECONDS // 60} minutes. Pages and answers "
    "stay; variables are gone, so run the cells again. Without a Jupyter server, as in VS Code, it cannot end any: "
    "close pages that you do not need."
)


def html(home: Home) -> str:
    """Where to continue, one card per week, the learner's trainer, and notes."""
    style = f"max-width: 76em; line-height: 1.45; {_TEXT}"
    return f'<div class="course-home" style="{style}">{"".join(_parts(home))}</div>'


def _parts(home: Home) -> Iterator[str]:
    yield _continue(home.next)
    yield from (f'<div style="margin: .2em 0">{_with_code(note)}</div>' for note in home.notes)
    yield f"<h2>Your weeks</h2>{_overall(home.cards)}"
    yield f'<div style="{_GRID}">{"".join(_card(one, home.next) for one in home.cards)}</div>'
    if home.modules:
        yield f"<h2>Your own trainer</h2>{_trainer(home.modules)}"


def _continue(found: Next | None) -> str:
    if found is None:
        return f'<p style="font-size: 1.1em"><b>{_with_code(ALL_RIGHT)}</b></p>'
    style = (
        f"display: inline-block; padding: .55em 1.1em; border-radius: 6px; background: {GREEN}; color: #fff; "
        "font-size: 1.15em; font-weight: bold; text-decoration: none"
    )
    verb = "Continue" if found.was_begun else "Begin"
    link = f'<a href="{escape(found.href)}" style="{style}">{verb}: {escape(found.label)}</a>'
    about = f'<span style="{_SMALL}; margin-left: .8em">{escape(found.name)}: {escape(found.more)}</span>'
    return f'<div style="margin: .8em 0">{link}{about}</div>'


def _with_code(text: str) -> str:
    """Escape a sentence, and show what is between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _overall(cards: Sequence[Card]) -> str:
    done, every = (sum(getattr(one, name) for one in cards) for name in ("done", "exercises"))
    points, most = (sum(getattr(one, name) for one in cards) for name in ("points", "most"))
    spent = time(sum(one.seconds for one in cards))
    words = f"{done} of {every} exercises · {points:g} of {most:g} points from checks · {spent} so far"
    return f"<div>{words}</div>{_bar(done, every)}"


def _card(card: Card, found: Next | None) -> str:
    """One week. The week of the next exercise has a blue edge, and says so."""
    is_next = found is not None and found.label.startswith(f"{card.label},")
    edge = f"; border-left: 5px solid {BLUE}" if is_next else ""
    is_done = card.done == card.exercises and card.exercises > 0
    state = "✓ done" if is_done else "next" if is_next else "begun" if card.was_begun else ""
    head = " · ".join(filter(None, (card.label.capitalize(), state, "" if card.was_begun else card.takes)))
    topic = f'<a href="{escape(card.href)}" style="font-weight: bold; {_LINK}">{escape(card.topic)}</a>'
    question = f'<div style="{_SMALL}; min-height: 2.8em">{escape(card.question)}</div>'
    words = f"{card.done} of {card.exercises} {'exercise' if card.exercises == 1 else 'exercises'}"
    if card.was_begun:
        words += f" · {card.points:g} of {card.most:g} points · {time(card.seconds)}"
    below = f'{_bar(card.done, card.exercises)}<div style="{_SMALL}">{words}</div>'
    return f'<div style="{_BOX}{edge}"><div style="{_SMALL}">{escape(head)}</div>{topic}{question}{below}</div>'


def _bar(done: float, every: float) -> str:
    """A progress bar; a screen reader hears the text next to it."""
    percent = round(100 * min(done / every, 1)) if every else 0
    track = "height: .5em; border-radius: .25em; background: rgba(127, 127, 127, .25); margin: .35em 0"
    fill = f"height: .5em; border-radius: .25em; background: {GREEN}; width: {percent}%"
    return f'<div aria-hidden="true" style="{track}"><div style="{fill}"></div></div>'


def _trainer(modules: Sequence[Module]) -> str:
    own, every = (sum(getattr(one, name) for one in modules) for name in ("own", "functions"))
    items = "".join(f"<div>{_module(one)}: {one.own} of {one.functions}</div>" for one in modules)
    words = f"{own} of {every} functions in <code>mine/</code> are yours; the course's functions fill the gaps."
    return f'<div>{words}</div>{_bar(own, every)}<div style="{_GRID}; {_SMALL}">{items}</div>'


def _module(module: Module) -> str:
    name = f"<code>{escape(module.name)}</code>"
    return f'<a href="{escape(module.href)}" style="{_LINK}">{name}</a>' if module.href else name


# ---- below the cards: commands, and what open notebooks hold ---------------------------------------------------------


def commands(found: Next | None) -> str:
    """The commands behind the buttons, for pages without widgets."""
    name = found.name if found else "week01.exchange"
    rows = {
        f"shardlab study hint {name}": "the next hint",
        f"shardlab study solution {name}": "the course's solution next to yours, after an honest attempt",
        "shardlab study cards": "interview questions that are due",
        "shardlab study": "this page as text",
    }
    lines = "".join(f"<div><code>{escape(command)}</code>: {words}</div>" for command, words in rows.items())
    return f'<div style="{_TEXT}; line-height: 1.6"><b>In a terminal</b>{lines}</div>'


def memory(notebooks: Sequence[OpenNotebook], said: str = "") -> str:
    """The memory of each open notebook, and the result of the button below (`said`)."""
    cell = f"padding: .1em 1.2em .1em 0; text-align: left; background: none; {_TEXT}"
    rows = "".join(
        f'<tr style="background: none"><td style="{cell}">{escape(one.name)}</td>'
        f'<td style="{cell}; text-align: right">{one.num_bytes / 2**20:,.0f} MB</td>'
        f'<td style="{cell}">{escape(one.state)}</td></tr>'
        for one in notebooks
    )
    total = sum(one.num_bytes for one in notebooks) / 2**20
    table = f'<table style="border-collapse: collapse; border: none; margin: .3em 0">{rows}</table>'
    below = f'<div style="{_SMALL}">{ABOUT_ENDING}</div>' + (f"<p><b>{escape(said)}</b></p>" if said else "")
    head = f"<b>Open notebooks hold {total:,.0f} MB</b>"
    return f'<div style="{_TEXT}; line-height: 1.45; max-width: 60em">{head}{table}{below}</div>'
