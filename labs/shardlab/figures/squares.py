"""Squares of cells: the blocks of a causal mask by rank, dropout masks, and the rows of an all-to-all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon, Rectangle

from shardlab.figures.palette import PALETTE, text_colour

MOST_CHUNKS = 16
LAYOUTS = ("contiguous", "zig-zag", "striped")


def chunk_owners(layout: str, num_ranks: int) -> list[int]:
    """The rank of each chunk: c chunks in order, 2c folded (zigzag), or 2c assigned in turn like stripes.

    Raises ValueError for an unknown layout.
    """
    ranks = list(range(num_ranks))
    owners = {"contiguous": ranks, "zig-zag": [*ranks, *reversed(ranks)], "striped": ranks * 2}
    if layout not in owners:
        raise ValueError(f"no layout {layout!r}: use {', '.join(owners)}")
    return owners[layout]


def layout_of(owners: Sequence[int]) -> str:
    """The name of the layout that assigns chunks to these ranks, or "another layout"."""
    num_ranks = max(owners) + 1
    return next((name for name in LAYOUTS if chunk_owners(name, num_ranks) == list(owners)), "another layout")


def chunk_work(owners: Sequence[int], documents: Sequence[int] = ()) -> list[float]:
    """Blocks of scores that each rank computes: 1 for a whole block, 1/2 on the diagonal, 0 for another document.

    documents: number of chunks of each document, in order; empty: one document. Raises ValueError if they do not add
    up to all chunks.
    """
    of_document = _documents(owners, documents)
    work = [0.0] * (max(owners) + 1)
    for query, rank in enumerate(owners):
        before = sum(of_document[key] == of_document[query] for key in range(query))
        work[rank] += before + 0.5
    return work


def draw_causal_square(ax: Axes, owners: Sequence[int], *, documents: Sequence[int] = (), title: str = "") -> str:
    """Draw a block for each chunk of queries (down) and keys (across): its color is the rank, its number the step.

    owners[i]: the rank that holds chunk i. Step: how many hops a key has made, (owner of query - owner of key) mod c.
    Returns the sentence. Raises ValueError for no chunks, too many, or documents that do not fit.
    """
    if not 0 < len(owners) <= MOST_CHUNKS:
        raise ValueError(f"{len(owners)} chunks cannot be read: draw 1 to {MOST_CHUNKS}")
    of_document, num_ranks, num = _documents(owners, documents), max(owners) + 1, len(owners)
    colours = rank_colours(num_ranks)
    for query, rank in enumerate(owners):
        for key in range(num):
            seen = key <= query and of_document[key] == of_document[query]
            _block(ax, key, query, colours[rank] if seen else None)
            if seen:
                place = (key + 0.5, query + 0.5) if key < query else (key + 0.33, query + 0.68)
                step = (rank - owners[key]) % num_ranks
                ax.text(
                    *place, str(step), ha="center", va="center", fontsize=_size(num), color=text_colour(colours[rank])
                )
        ax.text(-0.2, query + 0.5, f"rank {rank}", ha="right", va="center", fontsize=_size(num))
    ax.text(num / 2, -0.3, "keys", ha="center", va="bottom", fontsize=8)
    work = chunk_work(owners, documents)
    mean = sum(work) / num_ranks
    for rank, mine in enumerate(work):
        _work_bar(ax, rank, mine, max(work), num, num_ranks, colours[rank])
    ax.text(1.37 * num + 1.6, -0.3, "blocks of scores", ha="center", va="bottom", fontsize=8)
    ax.set_xlim(-2.2, 1.75 * num + 1.5)
    ax.set_ylim(num + 0.2, -1.2)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ratio, name = max(work) / mean, layout_of(owners)
    packed = f", {len(documents)} documents" if len(documents) > 1 else ""
    heading = f"{name.capitalize()}{packed}: the largest work is {ratio:.3g} times the mean"
    ax.set_title(title or heading, loc="left", fontsize=10)
    listed = ", ".join(f"rank {rank} {mine:g}" for rank, mine in enumerate(work))
    return (
        f"In words: {name}{packed}: chunks belong to ranks {list(owners)}; blocks computed: {listed}. "
        f"Largest over mean: {ratio:.4g}."
    )


def _documents(owners: Sequence[int], documents: Sequence[int]) -> list[int]:
    of_document = [number for number, length in enumerate(documents or [len(owners)]) for _ in range(length)]
    if len(of_document) != len(owners):
        raise ValueError(f"documents of {sum(documents)} chunks do not add up to a sequence of {len(owners)}")
    return of_document


def rank_colours(num_ranks: int) -> list[str]:
    """Light to dark in equal steps, so that neighbors differ for every kind of color vision and in gray."""
    scale = colormaps["cividis"].reversed()
    return [to_hex(scale(rank / max(1, num_ranks - 1))) for rank in range(num_ranks)]


def _size(num: int) -> float:
    return 8 if num <= 12 else 7


def _block(ax: Axes, key: int, query: int, colour: str | None) -> None:
    ax.add_patch(Rectangle((key, query), 1, 1, facecolor=PALETTE["idle"], edgecolor="white", linewidth=0.6))
    if colour is None:
        return
    corners = [(key, query), (key + 1, query + 1), (key, query + 1)]
    if key < query:
        corners.insert(1, (key + 1, query))
    ax.add_patch(Polygon(corners, facecolor=colour, edgecolor="white", linewidth=0.6))


def _work_bar(ax: Axes, rank: int, work: float, most: float, num: int, num_ranks: int, colour: str) -> None:
    """A rank's blocks as a bar to the right of the square."""
    height = num / num_ranks
    left, length = num + 1.6 + 0.04 * num, 0.5 * num * work / most
    top = rank * height + 0.2 * height
    ax.add_patch(Rectangle((left, top), length, 0.6 * height, facecolor=colour, edgecolor=PALETTE["parameters"]))
    ax.text(left - 0.1, top + 0.3 * height, f"{rank}", ha="right", va="center", fontsize=8)
    ax.text(left + length + 0.1, top + 0.3 * height, f"{work:g}", ha="left", va="center", fontsize=8)


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
        ax.text(target + 0.5, num + 0.6 + height, str(count), ha="center", va="top", fontsize=_count_size(num))
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


def _count_size(num: int) -> float:
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
        fontsize=_count_size(num),
        color=text_colour(colour),
    )
