"""The result of a check as a card in a notebook: HTML without scripts, readable on light and dark pages.

A verdict's text can contain a student's words, so everything from it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import PurePath

from shardlab.meter.place import is_cell

from autograder.judging.compared import Compared
from autograder.judging.judge import Verdict
from autograder.judging.told import TRACEBACK, told

SIGNS = {"right": "✓", "partly": "◐", "wrong": "✗", "open": "…", "failed": "!"}
WORDS = {
    "right": "right",
    "partly": "partly right",
    "wrong": "not right yet",
    "open": "not answered yet",
    "failed": "could not be judged",
}
COLORS = {"right": "#00714f", "partly": "#8a5a00", "wrong": "#b3331a", "open": "#595959", "failed": "#595959"}

_TEXT = "color: var(--jp-ui-font-color1, inherit)"
_SIDE = "var(--jp-border-color1, rgba(127, 127, 127, .5))"
_WRAPPED = "white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere"
_CODE = f"{_WRAPPED}; margin: .3em 0; font: .92em/1.4 var(--jp-code-font-family, monospace); {_TEXT}"
_CELL = f"padding: .1em 1.2em .1em 0; text-align: left; background: none; {_TEXT}"
_HINT = "border-left: 3px solid #0072b2; padding-left: .6em; margin: .4em 0"
_FRAME = re.compile(r'^( *)File "(.+)", line (\d+)(, in .+)?$')


@dataclass(frozen=True)
class Result:
    """All that a card shows. `hints` are the hints below the verdict's own, by number; `notes` follow them."""

    verdict: Verdict
    sentence: str = ""  # shown in place of the verdict's text if everything is right
    num_hints: int = 0
    hints: Mapping[int, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    compared: Sequence[Compared] = ()
    is_blank: bool = False
    advice: str = ""  # what to do after a failure of the machine


def card(result: Result) -> str:
    """The HTML of one card."""
    state = _state(result)
    frame = f"border: 1px solid {_SIDE}; border-left: 5px solid {COLORS[state]}; border-radius: 4px"
    style = f"{frame}; padding: .5em .9em; margin: .3em 0; max-width: 60em; line-height: 1.45; {_TEXT}"
    return f'<div class="check-card {state}" style="{style}">{"".join(_parts(result, state))}</div>'


def _state(result: Result) -> str:
    verdict = result.verdict
    if verdict.fault or verdict.look:
        return "failed"
    if result.is_blank:
        return "open"
    return "right" if verdict.is_right else "partly" if verdict.points else "wrong"


def _parts(result: Result, state: str) -> Iterator[str]:
    yield _head(result.verdict, state)
    if result.sentence:
        yield _line(result.sentence)
    else:
        yield from _problems(result)
    for number, text in result.hints.items():
        yield _hint(number, result.num_hints, text)
    yield from map(_line, result.notes)


def _head(verdict: Verdict, state: str) -> str:
    badge = (
        f"display: inline-block; width: 1.5em; margin-right: .5em; border-radius: 3px; text-align: center; "
        f"font-weight: bold; color: #fff; background: {COLORS[state]}"
    )
    sign = f'<span role="img" aria-label="{WORDS[state]}" style="{badge}">{SIGNS[state]}</span>'
    points = f"{verdict.points:g} of {verdict.max:g} points"
    return f"<div>{sign}<b>{escape(verdict.exercise)}</b>: {points}, {WORDS[state]}</div>"


def _problems(result: Result) -> Iterator[str]:
    """The sentences, each with its comparison; the line of the cell that failed; details; what is right; the hint."""
    parts = told(result.verdict.text)
    for sentence in parts.sentences:
        yield _line(_without_folders(sentence))
        yield from (_table(one) for one in result.compared if sentence.endswith(one.sentence))
    yield from _details(parts.detail, parts.sentences)
    if result.advice:
        yield _line(result.advice)
    if parts.right:
        yield _line(f"✓ Right: {parts.right}")
    if parts.hint:
        yield _hint(1, result.num_hints, parts.hint)


def _line(text: str) -> str:
    return f'<div style="margin: .3em 0">{escape(text)}</div>'


def _hint(number: int, count: int, text: str) -> str:
    of = f" of {count}" if count else ""
    return f'<div style="{_HINT}"><b>Hint {number}{of}:</b> {escape(text)}</div>'


def _table(one: Compared) -> str:
    names = "".join(f'<th style="{_CELL}">{name}</th>' for name in one.row)
    values = "".join(f'<td style="{_CELL}"><code>{escape(value)}</code></td>' for value in one.row.values())
    style = "border-collapse: collapse; border: none; margin: .4em 0"
    return f'<table style="{style}"><tr>{names}</tr><tr style="background: none">{values}</tr></table>'


# ---- tracebacks and wait graphs --------------------------------------------------------------------------------------


def _details(detail: str, sentences: Sequence[str]) -> Iterator[str]:
    """The lines of a deadlock report; then a traceback, folded, below the line of the cell that failed."""
    report, begin, rest = detail.partition(TRACEBACK)
    lines = [line for line in report.split("\n") if line and line not in sentences]
    if lines:
        yield f'<pre style="{_CODE}">{escape(chr(10).join(lines))}</pre>'
    if not begin:
        return
    text = [TRACEBACK, *rest.strip("\n").split("\n")]
    yield from _failed_line(text)
    shown = escape("\n".join(_without_folders(line) for line in text))
    yield f'<details><summary>Traceback</summary><pre style="{_CODE}">{shown}</pre></details>'


def _failed_line(lines: Sequence[str]) -> Iterator[str]:
    """The last line of the student's own cell in a traceback, with its source if the traceback has it."""
    frames = [place for place, line in enumerate(lines) if (match := _FRAME.match(line)) and is_cell(match[2])]
    if not frames:
        return
    source = lines[frames[-1] + 1 : frames[-1] + 2]
    code = source[0].strip() if source and source[0].startswith("    ") else ""
    place = _without_folders(lines[frames[-1]]).strip()
    yield _line(place[:1].upper() + place[1:] + (":" if code else "."))
    if code:
        yield f'<pre style="{_CODE}; padding-left: 1.2em">{escape(code)}</pre>'


def _without_folders(line: str) -> str:
    """Replace the path in a traceback's `File "…", line 3` by a name that the student knows; keep any other line."""
    if (match := _FRAME.match(line)) is None:
        return line
    spaces, name, number, function = match.groups()
    return f"{spaces}line {number} of {_known_as(name)}{function or ''}"


def _known_as(name: str) -> str:
    """A file as the student knows it: your cell, `torch/nn/module.py`, `mine/zero.py`, or the name alone."""
    if is_cell(name):
        return "your cell"
    parts = PurePath(name).parts
    for folder in ("site-packages", "labs", "mine"):
        if folder in parts[:-1]:
            place = len(parts) - 1 - parts[::-1].index(folder)
            return "/".join(parts[place + (folder != "mine") :])
    return parts[-1] if parts else name
