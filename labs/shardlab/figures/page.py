"""Put a figure on the page so that everybody can read it: as a picture and in words."""

import base64
import io
from html import escape

import matplotlib
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shardlab.figures.labels import wrap_titles
from shardlab.figures.palette import fonts

DOTS_PER_INCH = 160  # sharp on a laptop screen while notebooks stay small


def new_axes(width: float = 7.0, height: float = 3.0) -> tuple[Figure, Axes]:
    """A figure of `width` x `height` inches and the axes to draw on."""
    matplotlib.rcParams["font.family"] = fonts() or matplotlib.rcParamsDefault["font.family"]
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def new_rows(width: float, height: float, num: int) -> tuple[Figure, list[Axes]]:
    """A figure of `width` x `height` inches with `num` axes stacked vertically that share one x axis."""
    figure, first = new_axes(width, height)
    first.remove()
    rows = list(figure.subplots(num, sharex=True, squeeze=False)[:, 0])
    for ax in rows:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, rows


def png(figure: Figure) -> bytes:
    """The figure as a PNG file without metadata, so that drawing it again gives the same bytes."""
    wrap_titles(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def show(figure: Figure, sentence: str) -> None:
    """Display `figure` with `sentence` as its alt text, and the sentence below it, folded if it repeats the title.

    sentence: the "In words: ..." that `draw_*` returned.
    Raises ValueError when the sentence is empty, because a reader who cannot see the figure needs it.
    """
    if not sentence.strip():
        raise ValueError("a figure needs its sentence: pass the return value of draw_...")
    words = caption(sentence, folded=begins_with_a_title(sentence, figure))
    display(
        {"image/png": png(figure), "text/plain": sentence},
        metadata={"image/png": {"alt": sentence, "width": _pixels(figure)}},
        raw=True,
    )
    display({"text/html": words, "text/plain": sentence}, raw=True)


def as_html(figure: Figure, sentence: str) -> str:
    """The figure as HTML, for a widget that draws it again: what `show` displays, in one text."""
    words = caption(sentence, folded=begins_with_a_title(sentence, figure))
    source = f"data:image/png;base64,{base64.b64encode(png(figure)).decode()}"
    return f'<img alt="{escape(sentence)}" width="{_pixels(figure)}" src="{source}">{words}'


def begins_with_a_title(sentence: str, figure: Figure) -> bool:
    """Whether a sentence repeats a title of the figure and then lists the values that it shows."""
    words = " ".join(sentence.removeprefix("In words: ").split())
    titles = [ax.get_title(loc) for ax in figure.axes for loc in ("left", "center", "right")]
    return any(title.strip() and words.startswith(" ".join(title.split())) for title in titles)


def caption(sentence: str, *, folded: bool = False) -> str:
    """A sentence as the HTML caption below a picture, limited to a readable line width.

    folded: hide it behind the words "In words", because readers who see the picture have read it there.
    """
    style = "max-width: 46em; margin: 0 0 0.5em; font-style: italic"
    if not folded:
        return f'<p style="{style}">{escape(sentence)}</p>'
    words = escape(sentence.removeprefix("In words: "))
    return f'<details style="{style}"><summary>In words</summary>{words}</details>'


def _pixels(figure: Figure) -> int:
    """Width of a figure on a page."""
    return round(figure.get_size_inches()[0] * 96)
