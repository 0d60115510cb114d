"""An all-to-all as a square: how many rows each rank sends to each other rank, and what each receives."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from shardlab.figures.palette import PALETTE, text_colour

MOST_RANKS = 16


def draw_exchange(ax: Axes, rows: Sequence[Sequence[int]], *, title: str = "") -> str:
    """Draw a cell for each pair of ranks (sources down, targets across, darker for more rows), and bars of arrivals.

    rows[source][target]: number of rows sent; the framed diagonal is local. Returns the sentence.
    Raises ValueError for a table that is not square, has negative counts or no rows, or has too many ranks to read.
    """
    num = len(rows)
    if not 0 < num <= MOST_RANKS or any(len(mine) != num or min(mine) < 0 for mine in rows):
        raise ValueError(f"give a row of {num} counts, 0 or more, for each of 1 to {MOST_RANKS} ranks")
    arrive = [sum(mine[target] for mine in rows) for target in range(num)]
    if not sum(arrive):
        raise ValueError("no rows are sent: give at least one")
    scale, most = colormaps["cividis"].reversed(), max(map(max, rows))
    for source, mine in enumerate(rows):
        for target, count in enumerate(mine):
            _cell(ax, source, target, count, to_hex(scale(count / most)), num)
        ax.text(-0.15, source + 0.5, f"rank {source}", ha="right", va="center", fontsize=8)
    for target, count in enumerate(arrive):
        height = 0.28 * num * count / max(arrive)
        ax.add_patch(Rectangle((target + 0.15, num + 0.5), 0.7, height, facecolor=PALETTE["communication"]))
        ax.text(target + 0.5, num + 0.25, str(target), ha="center", va="center", fontsize=8)
        ax.text(target + 0.5, num + 0.6 + height, str(count), ha="center", va="top", fontsize=_size(num))
    ax.text(-0.15, num + 0.25, "to rank", ha="right", va="center", fontsize=8)
    ax.text(-0.15, num + 0.85, "rows that\narrive", ha="right", va="top", fontsize=8)
    ax.set_xlim(-1.2 - 0.1 * num, num + 0.2)
    ax.set_ylim(1.28 * num + 1.0, -0.1)
    ax.set_axis_off()
    ratio = max(arrive) * num / sum(arrive)
    ax.set_title(title or f"Fullest rank: {ratio:.2f} times the mean", loc="left", fontsize=10)
    stay = sum(rows[rank][rank] for rank in range(num)) / sum(arrive)
    return (
        f"In words: {sum(arrive)} rows among {num} ranks, {stay:.0%} of them stay local. Ranks receive "
        f"{', '.join(map(str, arrive))}. Fullest over mean: {ratio:.4g}."
    )


def _size(num: int) -> float:
    return 8 if num <= 8 else 7


def _cell(ax: Axes, source: int, target: int, count: int, colour: str, num: int) -> None:
    """One pair of ranks; local rows have a frame."""
    own = source == target
    edge, width = (PALETTE["backward"], 1.6) if own else ("white", 0.8)
    inset = 0.04 if own else 0.0
    place, length = (target + inset, source + inset), 1 - 2 * inset
    ax.add_patch(Rectangle(place, length, length, facecolor=colour, edgecolor=edge, linewidth=width))
    ax.text(
        target + 0.5,
        source + 0.5,
        str(count),
        ha="center",
        va="center",
        fontsize=_size(num),
        color=text_colour(colour),
    )
