"""Bar charts of bytes on one axis, with the number at the end of each bar."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from shardlab.costs import traffic
from shardlab.figures.labels import draw_limit
from shardlab.figures.palette import PALETTE
from shardlab.figures.units import bytes_on_axis, written_bytes


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
