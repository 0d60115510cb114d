"""Memory of a rank: stacked bars by purpose, and the device's limit."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from shardlab.figures.labels import draw_limit
from shardlab.figures.palette import PALETTE, text_colour
from shardlab.figures.units import bytes_of_unit

PARTS = {  # in stacking order: color, and a hatch for readers who cannot see colors
    "parameters": ("parameters", ""),
    "gradients": ("weights", "///"),
    "optimizer": ("optimizer", ".."),
    "activations": ("forward", "\\\\"),
}


def draw_memory(
    ax: Axes,
    rows: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    limit: float | None = None,
    limit_label: str = "the device",
    unit: str = "GB",
) -> str:
    """Draw what one rank holds, one bar per method, the first on top.

    rows: label -> {"parameters", "gradients", "optimizer", "activations": bytes}; parts may be missing. limit: bytes of
    the device. unit: GB (10^9 bytes), or GiB (2^30) where the text uses GiB. Returns the sentence. Raises ValueError
    for no rows, an unknown part or unit, or negative bytes.
    """
    for label, parts in rows.items():
        if unknown := set(parts) - set(PARTS):
            raise ValueError(f"{label} holds {', '.join(sorted(unknown))}: use {', '.join(PARTS)}")
    if not rows or any(value < 0 for parts in rows.values() for value in parts.values()):
        raise ValueError("give at least one row, each part of 0 bytes or more")
    size = bytes_of_unit(unit)
    rows = {label: {name: value / size for name, value in parts.items()} for label, parts in rows.items()}
    limit = None if limit is None else limit / size
    totals = {label: sum(parts.values()) for label, parts in rows.items()}
    longest = max(*totals.values(), limit or 0, 0)
    for place, (label, parts) in enumerate(rows.items()):
        _draw_row(ax, place, parts, longest)
        _write(ax, f"{totals[label]:.1f}", (totals[label], place), 4)
    if limit is not None:
        draw_limit(ax, limit)
        side = 4 if limit < longest / 4 else -4  # near the left end there is no room on the left
        _write(ax, f"{limit_label}, {limit:.0f} {unit}", (limit, -0.55), side)
    _finish(ax, rows, title, longest, unit)
    return _in_words(rows, totals, title, limit, limit_label, unit)


def _write(ax: Axes, text: str, place: tuple[float, float], offset: float) -> None:
    """Write text to the right of a place, or to the left for a negative offset (in points)."""
    side = "left" if offset > 0 else "right"
    ax.annotate(text, place, (offset, 0), textcoords="offset points", ha=side, va="center", fontsize=8)


def _draw_row(ax: Axes, place: int, parts: Mapping[str, float], longest: float) -> None:
    begin = 0.0
    for name, (colour, hatch) in PARTS.items():
        value = parts.get(name, 0.0)
        fill = PALETTE[colour]
        ax.barh(
            place, value, left=begin, height=0.6, color=fill, hatch=hatch, edgecolor="white", linewidth=0, label=name
        )
        if value > 0.09 * longest:
            box = {"facecolor": fill, "edgecolor": "none", "pad": 1}
            middle = begin + value / 2
            ax.text(
                middle, place, f"{value:.1f}", ha="center", va="center", fontsize=8, color=text_colour(fill), bbox=box
            )
        begin += value


def _finish(ax: Axes, rows: Mapping[str, Mapping[str, float]], title: str, longest: float, unit: str) -> None:
    ax.set_yticks(range(len(rows)), list(rows), fontsize=8)
    ax.set_ylim(len(rows) - 0.5, -0.9)
    ax.set_xlim(0, longest * 1.12 or 1)
    ax.set_xlabel(f"{unit} on one rank", fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    used = {name for parts in rows.values() for name, value in parts.items() if value}
    handles = {text: handle for handle, text in zip(*ax.get_legend_handles_labels(), strict=True) if text in used}
    ax.legend(
        handles.values(),
        handles.keys(),
        fontsize=8,
        frameon=False,
        ncols=4,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.22),
    )
    ax.set_title(title, loc="left", fontsize=10)


def _in_words(
    rows: Mapping, totals: Mapping[str, float], title: str, limit: float | None, limit_label: str, unit: str
) -> str:
    told = []
    for label, parts in rows.items():
        listed = ", ".join(f"{name} {parts[name]:.1f}" for name in PARTS if parts.get(name))
        told.append(f"{label}: {totals[label]:.1f} {unit} ({listed})")
    words = f"In words: {title}. {'; '.join(told)}."
    if limit is not None:
        over = [label for label, total in totals.items() if total > limit]
        words += f" Above {limit_label} ({limit:.0f} {unit}): {', '.join(over) or 'none'}."
    return words.replace("\n", " ")
