"""Animations as HTML: pictures that a reader steps through by keyboard or buttons, each described by a sentence.

Nothing is loaded, and no kernel is needed. Without scripts, the first picture and all sentences are shown. Pictures are
SVG that inherits the text color of the page, so they can be read on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from shardlab.figures.palette import PALETTE, text_colour

FRAME = PALETTE["backward"]  # can be seen on light and dark pages, and on all fills
SCRIPT = Path(__file__).with_name("steps.js")
STYLE = """
.steps { max-width: 46rem; padding: 0.3rem; }
.steps:focus-visible { outline: 2px solid #0072B2; outline-offset: -2px; }
.steps [hidden] { display: none; }
.steps p { margin: 0.4rem 0; }
.steps .frames { overflow-x: auto; }
.steps svg { display: block; width: 100%; min-width: 30rem; height: auto; font: 13px sans-serif; }
.steps button { font: inherit; min-width: 4.5em; padding: 0.2em 0.8em; cursor: pointer; }
.steps button[aria-disabled=true] { cursor: default; text-decoration: line-through; }
.steps .words { min-height: 4.6em; font-style: italic; }
"""


@dataclass(frozen=True)
class Frame:
    """One step of an animation: a picture in SVG, and a sentence that says what it shows."""

    svg: str
    sentence: str


@dataclass(frozen=True)
class Animation:
    """What `animate` returns; Jupyter shows it as HTML, and as a list of sentences where it cannot show HTML."""

    title: str
    frames: tuple[Frame, ...]

    def __repr__(self) -> str:
        return "\n".join([self.title, *(f"{number}. {one.sentence}" for number, one in enumerate(self.frames, 1))])

    def _repr_html_(self) -> str:
        pictures = "".join(map(_picture, range(len(self.frames)), self.frames))
        sentences = "".join(f"<li>{escape(one.sentence)}</li>" for one in self.frames)
        return (
            f'<div class="steps" role="group" aria-roledescription="animation" aria-label="{escape(self.title)}" '
            f'tabindex="0" data-lm-suppress-shortcuts="true"><style>{STYLE}</style>'
            f'<p><b>{escape(self.title)}</b></p><div class="frames">{pictures}</div>'
            '<p class="controls" hidden><button type="button">Back</button> <button type="button">Next</button> '
            '<span class="number"></span> · click the picture, then use ← → or space</p>'
            '<p class="words" aria-live="polite"></p>'
            f"<details open><summary>All steps in words</summary><ol>{sentences}</ol></details></div>"
            f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>"
        )


def animate(title: str, frames: Iterable[Frame]) -> Animation:
    """Frames that a reader steps through: arrow keys or space in the picture, or two buttons.

    Raises ValueError for fewer than two frames, and for a frame without a sentence.
    """
    found = tuple(frames)
    if len(found) < 2:
        raise ValueError(f"{len(found)} frames are no animation: give at least two, or use figures.show")
    if wordless := [number for number, one in enumerate(found, 1) if not one.sentence.strip()]:
        raise ValueError(f"frame {wordless[0]} has no sentence: say in words what it shows")
    return Animation(title, found)


def _picture(number: int, frame: Frame) -> str:
    hidden = " hidden" if number else ""
    described = f'<svg role="img" aria-label="{escape(frame.sentence)}"'
    return f'<div class="picture"{hidden}>{frame.svg.replace("<svg", described, 1)}</div>'


# ---- parts of a picture, in pixels -----------------------------------------------------------------------------------


def svg(width: float, height: float, parts: Sequence[str]) -> str:
    """A picture of that size. Later parts cover earlier ones."""
    return f'<svg viewBox="0 0 {width:g} {height:g}">{"".join(parts)}</svg>'


def box(x: float, y: float, width: float, height: float, fill: str, text: str = "", *, framed: bool = False) -> str:
    """A filled rectangle with its text in the middle; `framed` draws a thick border."""
    stroke = f'stroke="{FRAME}" stroke-width="3"' if framed else 'stroke="#8A8A8A"'
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" {stroke}/>'
        f'<text x="{x + width / 2:g}" y="{y + height / 2:g}" text-anchor="middle" dominant-baseline="central" '
        f'fill="{text_colour(fill)}">{escape(text)}</text>'
    )


def label(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    """Text in the page's color. anchor: start, middle or end."""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" dominant-baseline="central" fill="currentColor">'
        f"{escape(text)}</text>"
    )


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """A line in the page's text color that ends in a triangle."""
    length = max(1e-9, ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5)
    along_x, along_y = (to_x - x) / length, (to_y - y) / length
    base_x, base_y = to_x - 9 * along_x, to_y - 9 * along_y
    corners = [(to_x, to_y), (base_x - 4 * along_y, base_y + 4 * along_x), (base_x + 4 * along_y, base_y - 4 * along_x)]
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
    return (
        f'<line x1="{x:g}" y1="{y:g}" x2="{base_x:.1f}" y2="{base_y:.1f}" stroke="currentColor" stroke-width="1.5"/>'
        f'<polygon points="{points}" fill="currentColor"/>'
    )
