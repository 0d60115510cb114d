"""Plans: time against memory with the Pareto front, and where the time of a step goes."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from shardlab.costs.clock.step import StepSeconds
from shardlab.costs.hardware import GIB
from shardlab.costs.layout import Layout
from shardlab.costs.planning.planner import Plan, pareto
from shardlab.figures.palette import PALETTE, text_colour
from shardlab.figures.units import written_seconds

PARTS = {  # of a step, in stacking order: color, and a hatch for readers who cannot see colors
    "compute": ("forward", ""),
    "tensor": ("communication", "///"),
    "context": ("communication", "xx"),
    "expert": ("communication", "\\\\\\"),
    "boundaries": ("communication", ".."),
    "data": ("communication", ""),
    "bubble": ("idle", ""),
    "optimizer": ("optimizer", ".."),
}
MOST_LETTERS = 6


def draw_pareto(ax: Axes, plans: Sequence[Plan], *, title: str = "", limit: float | None = None) -> str:
    """Draw every plan as a dot, with memory on the x axis and time on the y axis, and the Pareto front.

    limit: usable bytes of a GPU, drawn as a line. The fastest plan, the smallest plan and some between them have
    letters that are explained next to the figure. Returns the sentence. Raises ValueError for no plans.
    """
    if not plans:
        raise ValueError("give at least one plan")
    front = pareto(plans)
    fastest, smallest = front[0], front[-1]
    title = title or (
        f"{1 - smallest.memory.total / fastest.memory.total:.0%} less memory costs "
        f"{smallest.step.total / fastest.step.total - 1:.0%} more time"
    )
    ax.scatter(*_points(plans), s=9, color=PALETTE["parameters"], alpha=0.35, linewidths=0, label="a layout that fits")
    xs, ys = _points(front)
    ax.step(xs, ys, where="pre", color=PALETTE["communication"], linewidth=1)
    ax.scatter(xs, ys, s=26, color=PALETTE["communication"], zorder=3, label="Pareto front")
    named = {chr(ord("A") + place): one for place, one in enumerate(_some(front, MOST_LETTERS))}
    for letter, one in named.items():
        place = (one.memory.total / GIB, one.step.total)
        ax.annotate(letter, place, (-4, -11), textcoords="offset points", fontsize=9, ha="right")
    if limit is not None:
        ax.axvline(limit / GIB, color="black", linestyle="--", linewidth=1)
        place = {"xycoords": ax.get_xaxis_transform(), "xytext": (-3, -2), "textcoords": "offset points"}
        ax.annotate(f"usable, {limit / GIB:.0f} GiB", (limit / GIB, 1.0), ha="right", va="top", fontsize=8, **place)
    listed = "\n".join(f"{letter}  {layout_text(one.layout)}" for letter, one in named.items())
    ax.text(1.02, 1.0, listed, transform=ax.transAxes, va="top", fontsize=8, linespacing=1.6)
    ax.set_yscale("log")
    ax.set_yticks(ticks := _ticks(ys[0], max(_points(plans)[1])), [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(left=0)
    ax.set_xlabel("GiB on the fullest rank", fontsize=8)
    ax.set_ylabel("seconds per step", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    ax.set_title(title, loc="left", fontsize=10)
    told = "; ".join(
        f"{letter} {layout_text(one.layout)}: {one.memory.total / GIB:.1f} GiB, {written_seconds(one.step.total)}"
        for letter, one in named.items()
    )
    return f"In words: {title}. {len(plans)} layouts fit, {len(front)} are on the Pareto front. {told}."


def layout_text(layout: Layout) -> str:
    """A layout as a short text: sizes above 1, then its other options. 1F1B is the default and not written."""
    sizes = (("tp", layout.tp), ("pp", layout.pp), ("dp", layout.dp), ("cp", layout.cp), ("ep", layout.ep))
    words = [f"{name}{size}" for name, size in sizes if size > 1]
    words += [f"v{layout.virtual}"] if layout.virtual > 1 else []
    words += [f"b{layout.microbatch}"] + ([f"ZeRO-{layout.zero}"] if layout.zero else [])
    words += [layout.schedule] if layout.schedule != "1f1b" else []
    return " ".join(words + ([f"{layout.recompute} recompute"] if layout.recompute != "none" else []))


def draw_step(ax: Axes, rows: Mapping[str, StepSeconds], *, title: str) -> str:
    """Draw where the time of a step goes, one bar per label, the first on top. Returns the sentence.

    Raises ValueError for no rows.
    """
    if not rows:
        raise ValueError("give at least one step")
    longest = max(step.total for step in rows.values())
    for place, step in enumerate(rows.values()):
        begin = 0.0
        for name, seconds in vars(step).items():
            colour, hatch = PARTS.get(name, ("communication", "++"))
            fill = PALETTE[colour]
            bar = {"color": fill, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
            ax.barh(place, seconds, left=begin, height=0.6, label=name, **bar)
            if seconds > 0.07 * longest:
                box = {"facecolor": fill, "edgecolor": "none", "pad": 1}
                written = written_seconds(float(f"{seconds:.{2 if seconds < 100 else 3}g}"))
                middle = begin + seconds / 2
                ax.text(middle, place, written, ha="center", va="center", fontsize=8, color=text_colour(fill), bbox=box)
            begin += seconds
        total = written_seconds(step.total)
        ax.annotate(total, (begin, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    _finish(ax, list(rows), longest, title, {name for step in rows.values() for name, s in vars(step).items() if s})
    return _in_words(rows, title)


def _finish(ax: Axes, labels: list[str], longest: float, title: str, used: set[str]) -> None:
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.15 * longest or 1)
    ax.set_xlabel("seconds", fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    handles = {text: handle for handle, text in zip(*ax.get_legend_handles_labels(), strict=True) if text in used}
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend(handles.values(), handles.keys(), fontsize=8, frameon=False, **place)
    ax.set_title(title, loc="left", fontsize=10)


def _in_words(rows: Mapping[str, StepSeconds], title: str) -> str:
    told = []
    for label, step in rows.items():
        parts = ", ".join(f"{name} {s / step.total:.0%}" for name, s in vars(step).items() if s >= 0.005 * step.total)
        told.append(f"{label}: {written_seconds(step.total)} ({parts})")
    return f"In words: {title}. {'; '.join(told)}.".replace("\n", " ")


def _points(plans: Sequence[Plan]) -> tuple[list[float], list[float]]:
    return [one.memory.total / GIB for one in plans], [one.step.total for one in plans]


def _some(front: list[Plan], most: int) -> list[Plan]:
    """The first, the last, and evenly spaced ones between."""
    if len(front) <= most:
        return front
    return [front[round(place * (len(front) - 1) / (most - 1))] for place in range(most)]


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers from just below `least` to `most`."""
    rounds = [digit * 10.0**power for power in range(-4, 8) for digit in (1, 1.5, 2, 3, 5, 7)]
    return [one for one in rounds if 0.85 * least <= one <= most] or [least]
