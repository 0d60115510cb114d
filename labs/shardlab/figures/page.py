"""Put a figure on the page so that everybody can read it: as a picture and in words."""

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
    """Display `figure` with `sentence` as its alt text, and the sentence below it as a wrapped caption.

    sentence: the "In words: ..." that `draw_*` returned.
    Raises ValueError when the sentence is empty, because a reader who cannot see the figure needs it.
    """
    if not sentence.strip():
        raise ValueError("a figure needs its sentence: pass the return value of draw_...")
    width = round(figure.get_size_inches()[0] * 96)
    display(
        {"image/png": png(figure), "text/plain": sentence},
        metadata={"image/png": {"alt": sentence, "width": width}},
        raw=True,
    )
    display({"text/html": caption(sentence), "text/plain": sentence}, raw=True)


def caption(sentence: str) -> str:
    """A sentence as the HTML caption below a picture, limited to a readable line width."""
    return f'<p style="max-width: 46em; margin: 0 0 0.5em; font-style: italic">{escape(sentence)}</p>'
