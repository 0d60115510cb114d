"""Render a cell's outputs as HTML: text, figures as files with captions, and a widget's initial picture."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any

from nbconvert.filters.ansi import ansi2html
from nbformat import NotebookNode
from shardlab.study.still import MARK

from autograder.site.languages import say

WIDGETS = "application/vnd.jupyter.widget-view+json"
STATES = "application/vnd.jupyter.widget-state+json"
Keep = Callable[[bytes], str]  # stores a picture and returns its address
_EMBEDDED = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")
_SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)
_ABSENT = object()


def outputs_html(outputs: Sequence[NotebookNode], states: dict[str, Any], keep: Keep) -> str:
    """Return the HTML of a cell's outputs.

    states: {model id: state} of the notebook's widgets, from its metadata.
    Raises ValueError for a kind of output that the site cannot show.
    """
    return "".join(_parts(outputs, states, keep))


def widget_states(notebook: NotebookNode) -> dict[str, Any]:
    """Return the states of a notebook's widgets by model id, as nbclient stored them."""
    kept = notebook.metadata.get("widgets", {}).get(STATES, {}).get("state", {})
    return {model: one.get("state", {}) for model, one in kept.items()}


def _parts(outputs: Sequence[NotebookNode], states: dict[str, Any], keep: Keep) -> Iterator[str]:
    for output in _joined(_without_captions(outputs)):
        if output["output_type"] == "stream":
            if output["text"].strip():
                yield f'<pre class="output">{ansi2html(output["text"].rstrip())}</pre>'
        elif output.get("metadata", {}).get(MARK):
            continue  # the widget below shows the same picture
        elif output["output_type"] == "error":
            yield f'<pre class="output error">{ansi2html(chr(10).join(output["traceback"]))}</pre>'
        else:
            yield _displayed(output["data"], output["metadata"].get("image/png", {}), states, keep)


def _displayed(data: dict[str, Any], about: dict[str, Any], states: dict[str, Any], keep: Keep) -> str:
    """Return the HTML of what a cell displays; `about` describes its picture."""
    if WIDGETS in data:
        return _widget(data[WIDGETS]["model_id"], states, keep)
    if "image/png" in data:
        return _figure(
            data["image/png"], about.get("alt", ""), about.get("width"), keep, folded=about.get("folded", False)
        )
    if "text/html" in data:
        html = _SCRIPT.sub("", data["text/html"])  # a page's policy forbids inline scripts; it loads steps.js instead
        return f'<div class="output">{_without_embedded(html, keep)}</div>'
    if "text/plain" in data:
        return f'<pre class="output">{ansi2html(data["text/plain"])}</pre>'
    raise ValueError(f"the site shows no output of type {', '.join(data)}: display a PNG, HTML or text")


def _without_captions(outputs: Sequence[NotebookNode]) -> Iterator[NotebookNode]:
    """Drop the alt text that `figures.show` displays below a picture: the site shows it as the picture's caption."""
    for before, output, after in zip([{}, *outputs], outputs, [*outputs[1:], {}], strict=False):
        if _is_caption(output, after):
            about = output["metadata"]["image/png"] | {"folded": "<details" in after["data"]["text/html"]}
            yield NotebookNode({**output, "metadata": {**output["metadata"], "image/png": about}})
        elif not _is_caption(before, output):
            yield output


def _is_caption(figure: dict[str, Any], output: dict[str, Any]) -> bool:
    alt, data = figure.get("metadata", {}).get("image/png", {}).get("alt"), output.get("data", {})
    return bool(alt) and "text/html" in data and data.get("text/plain") == alt


def _joined(outputs: Iterable[NotebookNode]) -> Iterator[dict[str, Any]]:
    """Merge adjacent text outputs and drop standard error, which no page is about."""
    text = ""
    for output in outputs:
        if output["output_type"] == "stream":
            text += output["text"] if output["name"] == "stdout" else ""
            continue
        if text.strip():
            yield {"output_type": "stream", "text": text}
        text = ""
        yield output
    if text.strip():
        yield {"output_type": "stream", "text": text}


def _figure(png: str, alt: str, width: int | None, keep: Keep, *, folded: bool) -> str:
    """Return a figure with its sentence as the caption; `folded` hides the caption behind a click."""
    if not alt:
        raise ValueError("a figure has no alt text: show it with figures.show")
    size = f' width="{width}" style="--width: {width}px"' if width else ""
    image = f'<img class="figure" alt="{escape(alt)}"{size} src="{keep(base64.b64decode(png))}" loading="lazy">'
    words = escape(alt, quote=False)
    if folded:
        words = f"<details><summary>{say('in-words')}</summary>{words.removeprefix('In words: ')}</details>"
    return f'<figure><div class="wide" tabindex="0">{image}</div><figcaption>{words}</figcaption></figure>\n'


def _widget(model: str, states: dict[str, Any], keep: Keep) -> str:
    """Return a widget's initial state, and a note that it is interactive in the notebook."""
    inside = "".join(_shown_by(model, states, keep))
    return f'<div class="still"><p class="note">{say("still")}</p>{inside}</div>'


def _shown_by(model: str, states: dict[str, Any], keep: Keep) -> Iterator[str]:
    state = states.get(model, {})
    if state.get("outputs"):
        yield outputs_html(state["outputs"], states, keep)
    elif state.get("_model_name") == "HTMLModel":
        yield _without_embedded(state["value"], keep)
    elif state.get("description") and state.get("value", _ABSENT) is not _ABSENT:
        yield f'<p class="slider">{escape(state["description"])}: <b>{escape(str(state["value"]))}</b></p>'
    for child in state.get("children", []):
        yield from _shown_by(child.removeprefix("IPY_MODEL_"), states, keep)


def _without_embedded(html: str, keep: Keep) -> str:
    """Return HTML with embedded pictures replaced by files."""
    return _EMBEDDED.sub(lambda match: keep(base64.b64decode(match[1])), html)
