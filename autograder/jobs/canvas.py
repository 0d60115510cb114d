"""Collect the figures and pictures of a manually graded cell, as width, height and RGB bytes.

This module is also a matplotlib backend, so that `plt.show()` calls it.
"""

from __future__ import annotations

import io
import sys
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas
from PIL import Image

__all__ = ["FigureCanvas", "FigureManager", "add", "flush", "show", "shown"]
MOST_PICTURES = 6
MOST_SIDE = 1200  # pixels of width or height
_DPI = 100
FigureManager = FigureCanvas.manager_class
shown: dict[str, Any] = {"pictures": [], "left_out": 0}


def show(*args: Any, **kwargs: Any) -> None:
    """Collect and close all open figures; `plt.show()` calls this."""
    flush()


def flush() -> None:
    """Collect the figures that are still open, as a notebook does at the end of a cell."""
    if "matplotlib.pyplot" not in sys.modules:
        return
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        add(pyplot.figure(number))
    pyplot.close("all")


def add(thing: Any) -> bool:
    """Collect a figure or another object with a PNG representation; returns False if it is not a picture."""
    is_figure = hasattr(thing, "savefig") and hasattr(thing, "get_size_inches")
    if not is_figure and not hasattr(thing, "_repr_png_"):
        return False
    if len(shown["pictures"]) >= MOST_PICTURES:
        shown["left_out"] += 1
        return True
    data = _drawn(thing) if is_figure else thing._repr_png_()
    if not isinstance(data, bytes):
        return False
    with Image.open(io.BytesIO(data), formats=("PNG",)) as picture:
        picture.thumbnail((MOST_SIDE, MOST_SIDE))
        on_white = Image.new("RGBA", picture.size, "white")
        on_white.alpha_composite(picture.convert("RGBA"))
    flat = on_white.convert("RGB")
    shown["pictures"].append({"width": flat.width, "height": flat.height, "rgb": flat.tobytes()})
    return True


def _drawn(figure: Any) -> bytes:
    """Render a figure as a PNG whose sides are at most `MOST_SIDE` pixels, whatever its size in inches."""
    buffer = io.BytesIO()
    dpi = min(_DPI, MOST_SIDE / max(figure.get_size_inches()))
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()
