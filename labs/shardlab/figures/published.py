"""Predictions compared with published measurements: one dot per run, the line of perfect predictions, and the worst
misses by name.
"""

from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from shardlab.figures.labels import number_log_axis
from shardlab.figures.palette import MEASURED, PALETTE

Point = tuple[str, float, float]


def draw_against_published(
    ax: Axes, points: Sequence[Point], *, what: str, unit: str, num_named: int = 4, within: float = 0.2
) -> str:
    """Draw predicted over measured on logarithmic axes, a band of `within`, and the names of the worst misses.

    points: (name, measured, predicted). Returns the sentence. Raises ValueError for no points, or for numbers that are
    not positive.
    """
    if not points or any(not (measured > 0 and predicted > 0) for _, measured, predicted in points):
        raise ValueError("give at least one point (name, measured, predicted), both numbers above 0")
    errors = {point: point[2] / point[1] - 1 for point in points}
    worst = sorted(points, key=lambda point: -abs(errors[point]))[:num_named]
    ends = [0.7 * min(point[1] for point in points), 1.4 * max(point[1] for point in points)]
    ax.fill_between(
        ends, [(1 - within) * end for end in ends], [(1 + within) * end for end in ends], color=PALETTE["idle"]
    )
    ax.plot(ends, ends, color=MEASURED, linewidth=1)
    ax.scatter([p[1] for p in points], [p[2] for p in points], s=20, color=PALETTE["communication"], alpha=0.7, lw=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis, label, limits in ((ax.xaxis, "measured", ax.get_xlim()), (ax.yaxis, "predicted", ax.get_ylim())):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        number_log_axis(axis, *limits)
        axis.set_label_text(f"{label}, {unit}", fontsize=8)
    ax.tick_params(labelsize=8)
    _number(ax, worst)
    listed = "\n".join(f"{number}  {one[0]}  {errors[one]:+.0%}" for number, one in enumerate(worst, 1))
    key = f"line: predicted = measured\ngray: within {within:.0%} of it"
    beside = {"transform": ax.transAxes, "va": "top", "fontsize": 7, "linespacing": 1.5}
    ax.text(1.02, 1.0, f"{key}\n\nthe worst misses\n{listed}", **beside)
    middle = median(map(abs, errors.values()))
    share = sum(abs(error) <= within for error in errors.values()) / len(points)
    title = f"{what}: {share:.0%} of {len(points)} published runs within {within:.0%}, {middle:.0%} off in the median"
    ax.set_title(title, loc="left", fontsize=9)
    told = ", ".join(f"{one[0]} {errors[one]:+.0%}" for one in worst)
    return f"In words: {title}. The worst misses: {told}."


def _number(ax: Axes, worst: Sequence[Point]) -> None:
    """Write 1, 2, ... next to the points, away from the line, and side by side where points are close together."""
    ax.autoscale_view()  # where the points will be
    written: list[tuple[float, float]] = []
    points = ax.figure.dpi / 72  # pixels per point
    for number, (_, measured, predicted) in enumerate(worst, 1):
        x, y = (value / points for value in ax.transData.transform((measured, predicted)))
        right, up = (5, -8) if predicted < measured else (-10, 3)
        while any(abs(x + right - other[0]) < 8 and abs(y + up - other[1]) < 8 for other in written):
            right += 9 if predicted < measured else -9
        written.append((x + right, y + up))
        ax.annotate(str(number), (measured, predicted), (right, up), textcoords="offset points", fontsize=8)
