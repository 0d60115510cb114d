"""Two or more bars of bytes for each method, next to one another, each with its number and its name."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from shardlab.figures.bars import finish_bars, write_behind
from shardlab.figures.palette import PALETTE
from shardlab.figures.units import written_bytes

HEIGHT = 0.38  # of a bar, in units of one method
STRONGEST, WEAKEST = 1.0, 0.4  # opacity of the last and the first bar of a method
MOST_PARTS = 3


def draw_paired_bars(ax: Axes, groups: Mapping[str, Mapping[str, float]], *, title: str) -> str:
    """Draw the bars of each method together, the first method on top; its last part has the strongest color.

    groups: method -> {part: bytes}, with the same parts for each. Returns the sentence. Raises ValueError for no
    methods, other parts, or too many.
    """
    parts = list(next(iter(groups.values()), ()))
    if not 0 < len(parts) <= MOST_PARTS or any(list(group) != parts for group in groups.values()):
        raise ValueError(f"bars cannot be paired: give every method the same 1 to {MOST_PARTS} parts")
    longest = max(value for group in groups.values() for value in group.values())
    for place, group in enumerate(groups.values()):
        for line, (part, value) in enumerate(group.items()):
            y = place + (line - (len(parts) - 1) / 2) * HEIGHT
            weight = STRONGEST - (STRONGEST - WEAKEST) * (len(parts) - 1 - line) / max(1, len(parts) - 1)
            ax.barh(y, value, height=HEIGHT, color=PALETTE["communication"], alpha=weight, linewidth=0)
            write_behind(ax, value, y, f"{written_bytes(value)} · {part}")
    finish_bars(ax, list(groups), title, longest)
    told = "; ".join(
        f"{method}: {', '.join(f'{written_bytes(value)} {part}' for part, value in group.items())}"
        for method, group in groups.items()
    )
    return f"In words: {title}. {told}."
