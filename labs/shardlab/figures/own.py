"""A map of a learner's own trainer: the week in which each module is written, and the weeks that use it."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from shardlab.figures.palette import PALETTE, text_colour

MOST_WEEKS = 20


def draw_own_trainer(ax: Axes, modules: Mapping[str, tuple[int, int, Sequence[int]]], *, title: str) -> str:
    """Draw a row per module: a box with its number of functions in the week that writes it, and a dot for each use.

    modules: name -> (week that writes it, number of functions, later weeks that import it). Returns the sentence.
    Raises ValueError for no modules, a week outside 0 to 20, or a use before the module is written.
    """
    weeks = [week for written, _, uses in modules.values() for week in (written, *uses)]
    if not weeks or not all(0 <= week <= MOST_WEEKS for week in weeks):
        raise ValueError(f"give at least one module, with weeks from 0 to {MOST_WEEKS}")
    for name, (written, _, uses) in modules.items():
        if any(week < written for week in uses):
            raise ValueError(f"{name} is used in week {min(uses)}, before week {written} writes it")
    for row, (name, (written, num, uses)) in enumerate(modules.items()):
        _draw_row(ax, row, written, num, sorted(uses))
        ax.text(min(weeks) - 0.8, row, name, ha="right", va="center", fontsize=8, family="monospace")
    ax.set_xlim(min(weeks) - 0.7, max(weeks) + 0.7)
    ax.set_ylim(len(modules) - 0.4, -1.3)
    for week in range(min(weeks), max(weeks) + 1):
        ax.text(week, -0.75, str(week), ha="center", va="bottom", fontsize=8)
    ax.set_axis_off()
    ax.set_title(title, loc="left", fontsize=10)
    return _sentence(modules, title)


def _draw_row(ax: Axes, row: int, written: int, num: int, uses: Sequence[int]) -> None:
    fill = PALETTE["weights"]
    if uses:
        ax.plot([written, uses[-1]], [row, row], color=PALETTE["parameters"], linewidth=1, zorder=1)
    ax.add_patch(
        Rectangle((written - 0.38, row - 0.36), 0.76, 0.72, facecolor=fill, edgecolor=PALETTE["parameters"], zorder=2)
    )
    ax.text(written, row, str(num), ha="center", va="center", fontsize=8, color=text_colour(fill), zorder=3)
    for week in uses:
        ax.plot([week], [row], marker="o", markersize=6, color=PALETTE["communication"], zorder=2)


def _sentence(modules: Mapping[str, tuple[int, int, Sequence[int]]], title: str) -> str:
    rows = [
        f"{name} ({num} functions) is written in week {written} and used in {_listed(uses)}"
        for name, (written, num, uses) in modules.items()
    ]
    return f"In words: {title}. {'; '.join(rows)}."


def _listed(weeks: Sequence[int]) -> str:
    return f"week{'s' if len(weeks) > 1 else ''} {', '.join(map(str, sorted(weeks)))}" if weeks else "no later week"
