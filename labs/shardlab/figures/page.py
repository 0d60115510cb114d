"""Put a figure on the page so that everybody can read it: the picture, and the same in words."""

import io
from html import escape

import matplotlib
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shardlab.figures.labels import wrap_titles
from shardlab.figures.palette import fonts

DOTS_PER_INCH = 160  # sharp on a laptop's screen, and a notebook stays small


def new_axes(width: float = 7.0, height: float = 3.0) -> tuple[Figure, Axes]:
    """A figure of `width` x `height` inches and the axes to draw on."""
    matplotlib.rcParams["font.family"] = fonts() or matplotlib.rcParamsDefault["font.family"]
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def new_rows(width: float, height: float, num: int) -> tuple[Figure, list[Axes]]:
    """A figure of `width` x `height` inches with `num` axes below one another that share one x axis."""
    figure, first = new_axes(width, height)
    first.remove()
    rows = list(figure.subplots(num, sharex=True, squeeze=False)[:, 0])
    for ax in rows:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, rows


def png(figure: Figure) -> bytes:
    """The figure as a PNG file, without the date: drawing it again gives the same bytes."""
    wrap_titles(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def show(figure: Figure, sentence: str) -> None:
    """Display `figure` with `sentence` as its alt text, and the sentence below it as a caption that wraps at words.

    sentence: what a `draw_*` returned, "In words: ...".
    Raises ValueError when the sentence is empty: a figure without words is lost on a reader who cannot see it.
    """
    if not sentence.strip():
        raise ValueError("a figure needs its sentence: pass what draw_... returned")
    width = round(figure.get_size_inches()[0] * 96)
    display(
        {"image/png": png(figure), "text/plain": sentence},
        metadata={"image/png": {"alt": sentence, "width": width}},
        raw=True,
    )
    display({"text/html": caption(sentence), "text/plain": sentence}, raw=True)


def caption(sentence: str) -> str:
    """A sentence as the HTML that stands under a picture, no wider than a line that is easily read."""
    return f'<p style="max-width: 46em; margin: 0 0 0.5em; font-style: italic">{escape(sentence)}</p>'
