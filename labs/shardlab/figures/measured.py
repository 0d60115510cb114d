"""Measurements compared with predictions: messages in the alpha-beta model, and the steps of published runs."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from math import inf
from statistics import median
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter

from shardlab.costs.traffic import all_reduce_seconds, tree_ring_crossover_bytes
from shardlab.figures.labels import keep_apart, number_log_axis, written_bytes, written_seconds
from shardlab.figures.palette import MEASURED, PALETTE

Sample = tuple[float, float, float]
HALO = [withStroke(linewidth=2, foreground="white")]  # so that a line behind a number does not cross it out
STYLES = ((PALETTE["communication"], "-", "o"), (MEASURED, "--", "s"), (PALETTE["backward"], ":", "^"))


def draw_predicted_against_measured(
    ax: Axes, points: Iterable[Sample], alpha: float, beta: float, *, names: Mapping[float, str] | None = None
) -> str:
    """Draw measured seconds over bytes, the line that alpha and beta predict, and each residual as a bar.

    points: (messages, bytes, seconds) as measured; messages are sequential. alpha: s/message, beta: s/byte.
    names: what to call the line of each number of messages. Both axes are logarithmic. Returns the sentence.
    """
    points = sorted(points, key=lambda point: (point[0], point[1]))
    if not points or any(num_bytes <= 0 or seconds <= 0 for _, num_bytes, seconds in points):
        raise ValueError("give at least one point (messages, bytes, seconds), bytes and seconds above 0")
    if alpha < 0 or beta < 0 or alpha + beta == 0:
        raise ValueError(f"alpha = {alpha} and beta = {beta} predict nothing: give seconds, at least one above 0")
    predicted = [alpha * messages + beta * num_bytes for messages, num_bytes, _ in points]
    errors = [seconds / guess - 1 for (_, _, seconds), guess in zip(points, predicted, strict=True)]

    named, labels = _errors_to_name(points, errors), []
    groups = sorted({point[0] for point in points}, reverse=True)
    styles = dict(zip(groups, cycle(STYLES), strict=False))
    for messages, (colour, dashes, _) in styles.items():
        sizes = _steps_between([num_bytes for m, num_bytes, _ in points if m == messages])
        times = [alpha * messages + beta * num_bytes for num_bytes in sizes]
        ax.plot(sizes, times, dashes, color=colour, linewidth=1.5, zorder=2)
        name = (names or {}).get(messages, "predicted")
        labels.append(_label_end(ax, times[-1], f"{name},\n{messages:g} messages", colour))
    for (messages, num_bytes, seconds), guess, error in zip(points, predicted, errors, strict=True):
        colour, _, marker = styles[messages]
        ax.plot([num_bytes, num_bytes], [guess, seconds], color=colour, linewidth=1.5, zorder=1)
        ax.plot([num_bytes], [seconds], marker, color=colour, markersize=5, zorder=3)
        if error in named:
            beside = (0, 5) if error >= 0 else (0, -12)
            style = {"textcoords": "offset points", "ha": "center", "fontsize": 7, "path_effects": HALO}
            labels.append(ax.annotate(_signed(error), (num_bytes, seconds), beside, **style))

    middle, largest = median(abs(error) for error in errors), max(errors, key=abs)
    worst = written_bytes(points[errors.index(largest)][1])
    _log_axes(ax, "bytes that a rank sends")
    keep_apart(cast(Figure, ax.figure), labels)
    ax.set_title(
        f"Measured (marks) against predicted (lines): {middle:.0%} apart in the median", loc="left", fontsize=10
    )
    return (
        f"In words: {len(points)} measurements differ from the prediction by {middle:.0%} in the median and by "
        f"{_signed(largest)} at most, at {worst}, with alpha = {written_seconds(alpha)} per message "
        f"and beta = {written_seconds(beta * 1e9)} per gigabyte."
    )


def draw_ring_against_tree(
    ax: Axes,
    num_ranks: int,
    alpha: float,
    beta: float,
    *,
    ring: Sequence[tuple[float, float]] = (),
    tree: Sequence[tuple[float, float]] = (),
    turns: float = 1.0,
) -> str:
    """Draw the seconds of a ring and a tree all-reduce over the tensor's bytes, with the size at which they cross.

    ring, tree: measured (bytes of the tensor, seconds), drawn as dots and squares. turns: ranks per core; that many of
    the ring's messages take turns. Returns the sentence.
    """
    crossover = _crossover(num_ranks, alpha, beta, turns)
    measured = [num_bytes for num_bytes, _ in (*ring, *tree)]
    around = crossover if 0 < crossover < inf else alpha / beta or 1e6
    labels = []
    sizes = _steps_between([min([around / 100, *measured]), max([around * 100, *measured])])
    for algorithm, colour, marker, points in (
        ("ring", PALETTE["communication"], "o", ring),
        ("tree", MEASURED, "s", tree),
    ):
        seconds = [all_reduce_seconds(num_ranks, size, alpha=alpha, beta=beta, algorithm=algorithm) for size in sizes]
        seconds = [time * (turns if algorithm == "ring" else 1.0) for time in seconds]
        style = "-" if algorithm == "ring" else "--"
        ax.plot(sizes, seconds, style, color=colour, linewidth=1.5)
        labels.append(_label_end(ax, seconds[-1], algorithm, colour))
        ax.plot([size for size, _ in points], [time for _, time in points], marker, color=colour, markersize=5)
    _log_axes(ax, "bytes of the tensor")
    keep_apart(cast(Figure, ax.figure), labels)
    if not crossover:
        ax.set_title(f"{num_ranks} ranks: the tree never wins", loc="left", fontsize=10)
        return f"In words: with {num_ranks} ranks a tree takes as many steps as a ring, so the ring is never slower."
    sharing = f" ({turns:g} ranks share a core)" if turns > 1 else ""
    if crossover == inf:
        ax.set_title(f"{num_ranks} ranks{sharing}: the ring never wins", loc="left", fontsize=10)
        return f"In words: with {num_ranks} ranks{sharing} the ring takes longer than a tree for every tensor."
    ax.axvline(crossover, color="black", linestyle=":", linewidth=1)
    ax.annotate(f"  {written_bytes(crossover)}", (crossover, 0.03), xycoords=("data", "axes fraction"), fontsize=8)
    title = f"{num_ranks} ranks{sharing}: predicted, the tree wins below {written_bytes(crossover)}"
    ax.set_title(title, loc="left", fontsize=10)
    return (
        f"In words: with {num_ranks} ranks{sharing}, alpha = {written_seconds(alpha)} and "
        f"beta = {written_seconds(beta * 1e9)} per gigabyte, "
        f"a tree all-reduce is faster below {written_bytes(crossover)} and a ring above."
    )


def _crossover(num_ranks: int, alpha: float, beta: float, turns: float) -> float:
    """The bytes below which the tree is faster, with the ring `turns` times as slow: infinite if it never wins."""
    if turns == 1:
        return tree_ring_crossover_bytes(num_ranks, alpha, beta)

    def ahead(num_bytes: float) -> float:  # seconds by which the tree is faster
        ring, tree = (
            all_reduce_seconds(num_ranks, num_bytes, alpha=alpha, beta=beta, algorithm=name)
            for name in ("ring", "tree")
        )
        return turns * ring - tree

    lost_per_byte = ahead(0) - ahead(1)
    return max(0.0, ahead(0) / lost_per_byte) if lost_per_byte > 0 else inf


def _steps_between(sizes: Sequence[float], count: int = 60) -> list[float]:
    """`count` sizes from the smallest to the largest, evenly spaced on a logarithmic axis."""
    low, high = min(sizes), max(sizes)
    return [low * (high / low) ** (i / (count - 1)) for i in range(count)]


def _errors_to_name(points: Sequence[Sample], errors: Sequence[float]) -> list[float]:
    """The errors to label: all of them for one line, but only the largest per line for several, to avoid overlaps."""
    groups = [
        [error for error, point in zip(errors, points, strict=True) if point[0] == messages]
        for messages in sorted({point[0] for point in points})
    ]
    return list(errors) if len(groups) == 1 else [max(group, key=abs) for group in groups]


def _signed(error: float) -> str:
    return f"{round(error, 2) + 0.0:+.0%}"


def _label_end(ax: Axes, y: float, text: str, colour: str) -> Annotation:
    """A line's name, right of the axes at the height of the line's end, where it covers no points."""
    place = {"xycoords": ax.get_yaxis_transform(), "xytext": (4, 0), "textcoords": "offset points"}
    return ax.annotate(text, (1.0, y), va="center", fontsize=8, color=colour, annotation_clip=False, **place)


def _log_axes(ax: Axes, label: str) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(label, fontsize=8)
    ax.set_ylabel("seconds", fontsize=8)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: written_bytes(value)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written_seconds(value)))
    ax.margins(x=0.06, y=0.12)
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        number_log_axis(axis, low, high)
    ax.tick_params(labelsize=8)


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
