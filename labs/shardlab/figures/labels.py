"""Text in figures: readable bytes and seconds, titles wrapped where they are too long, labels moved apart.

Units are powers of ten, as in link speeds: "24.5 GB", "490 ms".
"""

import textwrap
from collections.abc import Sequence
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

LONG_AXIS = 300  # an axis is long if its end is more than this many times its beginning
AIR = 2.0  # points between two labels
SHORT = 0.6  # titles shorter than this share of the figure's width always fit
LEAST_LETTERS = 12  # per line


def wrap_titles(figure: Figure) -> None:
    """Wrap each title that is too wide for the figure, into as few lines as possible."""
    for ax in figure.axes:
        title = ax.get_title(loc="left")
        drawn = next(child for child in ax.get_children() if isinstance(child, Text) and child.get_text() == title)
        if drawn.get_window_extent().width < SHORT * figure.bbox.width:
            continue
        figure.draw_without_rendering()  # positions the axes, and so the beginning of the title
        letters = len(title)
        while (too_wide := drawn.get_window_extent().x1 - figure.bbox.width) > 0 and letters > LEAST_LETTERS:
            letters -= max(1, round(letters * too_wide / drawn.get_window_extent().width / 2))
            drawn.set_text("\n".join(textwrap.wrap(title, letters)))
        drawn.set_text("\n".join(_even_lines(title, drawn.get_text().count("\n") + 1)))


def _even_lines(text: str, num_lines: int) -> list[str]:
    """Split the text into that many lines of similar length, so that no single word is left for the last line."""
    widths = range(max(map(len, text.split())), len(text) + 1)
    return next(lines for width in widths if len(lines := textwrap.wrap(text, width)) <= num_lines)


def draw_limit(ax: Axes, limit: float) -> None:
    """A dashed vertical line on a white one, so that it can be seen on dark bars, too."""
    ax.axvline(limit, color="white", linewidth=3)
    ax.axvline(limit, color="black", linestyle="--", linewidth=1.2)


def number_log_axis(axis: Axis, low: float, high: float) -> None:
    """Label a logarithmic axis from low to high at 1, 2 and 5 times each power of ten, or only at powers if it is long.

    On a short axis, powers of ten alone would be only one or two labels.
    """
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < LONG_AXIS * low else (1,), numticks=8))
    axis.set_minor_locator(NullLocator())


def keep_apart(figure: Figure, labels: Sequence[Annotation]) -> None:
    """Move overlapping labels apart, equally up and down, without changing their order.

    labels: annotations whose text position is in offset points.
    """
    figure.draw_without_rendering()
    points = 72 / figure.dpi
    stack = sorted(labels, key=lambda label: label.get_window_extent().y0)
    extents = [label.get_window_extent() for label in stack]
    shifts = [0.0] * len(stack)
    for _ in range(len(stack)):  # each round moves pairs apart by their overlap
        for (i, low), (j, high) in combinations(enumerate(extents), 2):
            meets = low.x0 < high.x1 and high.x0 < low.x1
            overlap = (low.y1 + shifts[i]) - (high.y0 + shifts[j]) + AIR / points
            if meets and overlap > 0:
                shifts[i] -= overlap / 2
                shifts[j] += overlap / 2
    for label, shift in zip(stack, shifts, strict=True):
        x, y = label.get_position()
        label.set_position((x, y + shift * points))


MEMORY = {"GB": 1e9, "GiB": 2.0**30}  # units for memory figures, in bytes

_BYTES = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")]
_SECONDS = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]


def bytes_of_unit(unit: str) -> float:
    """The bytes in one GB or GiB. Figures use the unit of the page's text, which is GiB on pages with the planner.

    Raises ValueError for another unit.
    """
    if unit not in MEMORY:
        raise ValueError(f"memory is not drawn in {unit}: use {' or '.join(MEMORY)}")
    return MEMORY[unit]


def written_bytes(num_bytes: float) -> str:
    """24500000000.0 -> "24.5 GB"."""
    return _written(num_bytes, _BYTES, digits=4)


def bytes_on_axis(largest: float) -> FuncFormatter:
    """A formatter that writes all numbers of an axis that ends at `largest` in one unit: 0, 0.6 MB, 1.2 MB."""
    scale, unit = next((pair for pair in _BYTES if largest >= pair[0]), _BYTES[-1])
    return FuncFormatter(lambda value, _: f"{value / scale:g} {unit}" if value else "0")


def written_seconds(seconds: float) -> str:
    """0.49 -> "490 ms"."""
    return _written(seconds, _SECONDS, digits=3)


def _written(value: float, units: list[tuple[float, str]], digits: int) -> str:
    rounded = float(f"{value:.{digits}g}")
    scale, unit = next((pair for pair in units if abs(rounded) >= pair[0]), units[-1])
    return f"{float(f'{rounded / scale:.{digits}g}'):g} {unit}"
