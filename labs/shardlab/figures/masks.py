"""Dropout masks as pictures, side by side by rank, so that equal masks are easy to spot."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from shardlab.figures.palette import PALETTE

Mask = Sequence[Sequence[bool]]
MOST_CELLS = 2000


def draw_masks(ax: Axes, masks: Mapping[str, Mask], *, title: str) -> str:
    """Draw each mask as a grid: a kept number is a filled cell, a dropped number an empty cell with a cross.

    masks: label -> rows of flags, true for kept numbers. Returns the sentence, which names equal masks.
    Raises ValueError for no masks, an empty or ragged mask, or too many cells to read.
    """
    sizes = {label: (len(rows), len(rows[0]) if rows else 0) for label, rows in masks.items()}
    if not masks or any(len({len(row) for row in rows}) != 1 or not rows[0] for rows in masks.values()):
        raise ValueError("give at least one mask, each with rows of one length")
    if sum(rows * columns for rows, columns in sizes.values()) > MOST_CELLS:
        raise ValueError(f"masks of {list(sizes.values())} cannot be read: draw at most {MOST_CELLS} cells in all")
    left = 0.0
    for label, rows in masks.items():
        for y, row in enumerate(rows):
            for x, kept in enumerate(row):
                _draw_cell(ax, left + x, y, kept=bool(kept))
        ax.text(left + len(rows[0]) / 2, -0.5, label, ha="center", va="bottom", fontsize=9)
        left += len(rows[0]) + 1.5
    ax.set_xlim(-0.2, left - 1.3)
    ax.set_ylim(max(rows for rows, _ in sizes.values()) + 0.2, -1.6)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_title(title, loc="left", fontsize=10)
    return _sentence(masks, title)


def _draw_cell(ax: Axes, x: float, y: float, *, kept: bool) -> None:
    fill = PALETTE["forward"] if kept else "white"
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor=PALETTE["parameters"], linewidth=0.6))
    if not kept:
        ax.plot([x + 0.25, x + 0.75], [y + 0.25, y + 0.75], color="black", linewidth=0.9)
        ax.plot([x + 0.25, x + 0.75], [y + 0.75, y + 0.25], color="black", linewidth=0.9)


def _sentence(masks: Mapping[str, Mask], title: str) -> str:
    plain = {label: [[bool(kept) for kept in row] for row in rows] for label, rows in masks.items()}
    dropped = [f"{label} drops {sum(not kept for row in rows for kept in row)}" for label, rows in plain.items()]
    equal = [f"{a} and {b}" for a, b in combinations(plain, 2) if plain[a] == plain[b]]
    return f"In words: {title}. {', '.join(dropped)}. Equal masks: {', '.join(equal) or 'none'}."
