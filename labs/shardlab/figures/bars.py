"""Bars of bytes: one per label, several per method, or the memory of a rank stacked by purpose."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from shardlab.costs import traffic
from shardlab.figures.labels import bytes_of_unit, bytes_on_axis, draw_limit, written_bytes
from shardlab.figures.palette import PALETTE, text_colour


def draw_bars(
    ax: Axes,
    bars: Mapping[str, float],
    *,
    title: str,
    notes: Sequence[str] = (),
    limit: float | None = None,
    limit_label: str = "the limit",
) -> str:
    """Draw one horizontal bar per label, the first on top.

    bars: label -> bytes. title: the finding. notes: one text per bar, written after its number.
    limit: bytes, drawn as a vertical line. Returns the sentence.
    """
    if not bars or any(value < 0 for value in bars.values()):
        raise ValueError("give at least one bar, each of 0 bytes or more")
    if notes and len(notes) != len(bars):
        raise ValueError(f"{len(notes)} notes for {len(bars)} bars: give {len(bars)} or none")
    longest = max(*bars.values(), limit or 0, 0)
    for place, (value, note) in enumerate(zip(bars.values(), notes or [""] * len(bars), strict=True)):
        ax.barh(place, value, height=0.6, color=PALETTE["communication"])
        text = written_bytes(value) + (f" · {note}" if note else "")
        covered = value + 0.016 * len(text) * longest  # roughly where the text ends
        behind = limit if limit is not None and value < limit < covered else value
        write_behind(ax, behind, place, text)
    if limit is not None:
        draw_limit(ax, limit)
        place = (limit, 1.0)
        text = f"{limit_label}, {written_bytes(limit)} "
        ax.annotate(text, place, xycoords=ax.get_xaxis_transform(), ha="right", va="top", fontsize=8)
    finish_bars(ax, list(bars), title, longest)
    if limit is not None:
        ax.set_ylim(top=-1.0)  # leave room above the first bar for the limit's label

    parts = [f"{label}: {written_bytes(value)}" for label, value in bars.items()]
    parts = [f"{part} ({note})" for part, note in zip(parts, notes, strict=True)] if notes else parts
    over = [label for label, value in bars.items() if limit is not None and value > limit]
    words = f"In words: {title}. {'; '.join(parts)}."
    if limit is not None:
        words += f" Above {limit_label} ({written_bytes(limit)}): {', '.join(over) or 'none'}."
    return words.replace("\n", " ")


def draw_traffic(ax: Axes, num_ranks: int, num_bytes: float) -> str:
    """Draw the bytes that one rank sends in each collective on a tensor of `num_bytes`, with formulas as labels."""
    half = traffic.ring_reduce_scatter_bytes(num_ranks, num_bytes)
    rows = [
        ("reduce-scatter, ring\n(N-1)/N · S", half),
        ("all-gather, ring\n(N-1)/N · S", traffic.ring_all_gather_bytes(num_ranks, num_bytes)),
        ("all-to-all\n(N-1)/N · S", traffic.all_to_all_bytes(num_ranks, num_bytes)),
        ("broadcast, ring\nS", traffic.broadcast_bytes(num_ranks, num_bytes)),
        ("all-reduce, ring\n2(N-1)/N · S", traffic.ring_all_reduce_bytes(num_ranks, num_bytes)),
        ("all-reduce, tree (rank 0)\nceil(log2 N) · S", traffic.tree_all_reduce_bytes(num_ranks, num_bytes)),
        ("all-reduce, naive (rank 0)\n(N-1) · S", traffic.naive_all_reduce_bytes(num_ranks, num_bytes).sent),
    ]
    for place, (label, value) in enumerate(rows):
        ax.barh(place, value, height=0.6, color=PALETTE["communication"])
        if label.startswith("all-reduce, ring"):
            ax.barh(place, half, left=half, height=0.6, color="none", hatch="///", edgecolor="white", linewidth=0)
            write_behind(ax, value, place, f"{written_bytes(value)} = reduce-scatter + all-gather")
        else:
            write_behind(ax, value, place, written_bytes(value))
    title = f"What one rank sends: N = {num_ranks} ranks, S = {written_bytes(num_bytes)}"
    finish_bars(ax, [label for label, _ in rows], title, max(value for _, value in rows))
    listed = "; ".join(f"{label.splitlines()[0]} {written_bytes(value)}" for label, value in rows)
    return f"In words: with {num_ranks} ranks and a tensor of {written_bytes(num_bytes)} one rank sends: {listed}."


def write_behind(ax: Axes, value: float, place: float, text: str) -> None:
    """Write text to the right of a bar that ends at value."""
    ax.annotate(text, (value, place), (4, 0), textcoords="offset points", va="center", fontsize=8)


def finish_bars(ax: Axes, labels: Sequence[str], title: str, longest: float) -> None:
    """Label the bars and the axis of bytes, and leave room for the text behind the longest bar."""
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, longest * 1.3 or 1)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(bytes_on_axis(longest))
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.set_title(title, loc="left", fontsize=10)


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
        _draw_parts(ax, place, parts, longest)
        _write(ax, f"{totals[label]:.1f}", (totals[label], place), 4)
    if limit is not None:
        draw_limit(ax, limit)
        side = 4 if limit < longest / 4 else -4  # near the left end there is no room on the left
        _write(ax, f"{limit_label}, {limit:.0f} {unit}", (limit, -0.55), side)
    _finish_memory(ax, rows, title, longest, unit)
    return _memory_in_words(rows, totals, title, limit, limit_label, unit)


def _write(ax: Axes, text: str, place: tuple[float, float], offset: float) -> None:
    """Write text to the right of a place, or to the left for a negative offset (in points)."""
    side = "left" if offset > 0 else "right"
    ax.annotate(text, place, (offset, 0), textcoords="offset points", ha=side, va="center", fontsize=8)


def _draw_parts(ax: Axes, place: int, parts: Mapping[str, float], longest: float) -> None:
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


def _finish_memory(ax: Axes, rows: Mapping[str, Mapping[str, float]], title: str, longest: float, unit: str) -> None:
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


def _memory_in_words(
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
