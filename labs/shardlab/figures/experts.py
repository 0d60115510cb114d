"""Which token visits which expert, how full experts get from step to step, and which tokens each expert sees.

Shapes: T tokens, E experts, K choices per token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Annotation

from shardlab.figures.labels import keep_apart
from shardlab.figures.palette import MEASURED, PALETTE, ink, text_colour

MOST_TOKENS, MOST_EXPERTS, MOST_LINES, MOST_LARGE = 96, 32, 6, 64


def draw_routing(
    ax: Axes,
    scores: Sequence[Sequence[float]],
    experts: Sequence[Sequence[int]],
    kept: Sequence[Sequence[bool]],
    *,
    tokens: str,
    num_ranks: int = 1,
    title: str = "",
) -> str:
    """Draw a gray cell for each score, a dot for each choice, a cross for each dropped choice, and loads on the right.

    scores: [T, E], darker is higher. experts, kept: [T, K]. tokens: one character each. Each rank has an equal,
    consecutive part. Returns the sentence. Raises ValueError for tables too large to read or of a different length.
    """
    num_tokens, num_experts = len(scores), len(scores[0]) if scores else 0
    if not 0 < num_tokens <= MOST_TOKENS or not 0 < num_experts <= MOST_EXPERTS:
        raise ValueError(
            f"{num_tokens} tokens and {num_experts} experts cannot be read: draw 1 to {MOST_TOKENS} tokens and 1 to "
            f"{MOST_EXPERTS} experts"
        )
    if not len(tokens) == len(experts) == len(kept) == num_tokens or num_tokens % num_ranks:
        raise ValueError(
            f"{num_tokens} rows of scores: give as many tokens, choices and flags, a multiple of {num_ranks} ranks"
        )
    columns = [list(column) for column in zip(*scores, strict=True)]
    low, high = min(map(min, scores)), max(map(max, scores))
    ax.imshow(columns, cmap="Greys", aspect="auto", vmin=low, vmax=2 * high - low)  # gray light enough for the dots
    choices = [
        (token, expert, bool(stays))
        for token, (mine, flags) in enumerate(zip(experts, kept, strict=True))
        for expert, stays in zip(mine, flags, strict=True)
    ]
    for flag, marker, colour in ((True, "o", PALETTE["communication"]), (False, "x", PALETTE["backward"])):
        places = [(token, expert) for token, expert, stays in choices if stays is flag]
        ax.plot(*([place[axis] for place in places] for axis in (0, 1)), marker, color=colour, markersize=4, mew=1.4)
    count = Counter((expert, stays) for _, expert, stays in choices)
    loads = [(count[expert, True], count[expert, False]) for expert in range(num_experts)]
    _loads(ax, loads, num_tokens)
    _margins(ax, tokens, num_experts, num_ranks)
    _legend(ax, dropped=any(load[1] for load in loads))
    ratio = max(map(sum, loads)) * num_experts / max(1, len(choices))
    dropped = f"{sum(load[1] for load in loads)} of {len(choices)} choices"
    title = title or f"Fullest expert: {ratio:.2f} times the mean. Dropped: {dropped}"
    ax.set_title(title, loc="left", fontsize=10)
    return (
        f"In words: {num_tokens} tokens of {num_ranks} ranks choose {len(experts[0])} of {num_experts} experts each. "
        f"Choices by expert: {', '.join(str(sum(load)) for load in loads)}. The fullest has {ratio:.2f} times the "
        f"mean. {dropped} are dropped."
    )


def _loads(ax: Axes, loads: Sequence[Sequence[int]], num_tokens: int) -> None:
    """A bar for each expert, to the right of the cells: kept choices, then dropped ones, hatched."""
    most, left, length = max(*map(sum, loads), 1), num_tokens + 1.0, 0.22 * num_tokens
    for expert, (stays, dropped) in enumerate(loads):
        stay, drop = (length * number / most for number in (stays, dropped))
        ax.add_patch(Rectangle((left, expert - 0.38), stay, 0.76, facecolor=PALETTE["forward"]))
        if dropped:
            at, edge = (left + stay, expert - 0.38), PALETTE["backward"]
            ax.add_patch(Rectangle(at, drop, 0.76, facecolor="white", edgecolor=edge, hatch="////"))
        ax.text(left + 1.14 * length, expert, str(stays + dropped), ha="right", va="center", fontsize=8)
    mean = left + length * sum(map(sum, loads)) / len(loads) / most
    ax.plot([mean, mean], [-0.5, len(loads) - 0.5], "--", color=MEASURED, linewidth=1)
    ax.text(mean, -0.7, "mean", ha="center", va="bottom", fontsize=8)
    ax.set_xlim(-0.5, left + 1.15 * length)


def _legend(ax: Axes, *, dropped: bool) -> None:
    """Name the marks below the characters: what a token chose, and what was dropped if anything was."""
    chosen, cross = ({"color": PALETTE[name], "linestyle": "", "mew": 1.4} for name in ("communication", "backward"))
    handles: dict[str, Artist] = {
        "score of the router, darker is higher": Patch(facecolor="#A0A0A0"),
        "chosen": Line2D([], [], marker="o", markersize=5, **chosen),
        "choices by expert": Patch(facecolor=PALETTE["forward"]),
    }
    if dropped:
        hatched = Patch(facecolor="white", edgecolor=PALETTE["backward"], hatch="////")
        handles["dropped"] = cast(Artist, (Line2D([], [], marker="x", markersize=5, **cross), hatched))
    style = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.06), "ncols": 4, "frameon": False, "fontsize": 8}
    handlers = {tuple: HandlerTuple(ndivide=None, pad=0.6)}
    ax.legend(list(handles.values()), list(handles), handler_map=handlers, **style)


def _margins(ax: Axes, tokens: str, num_experts: int, num_ranks: int) -> None:
    """Characters below, experts on the left, ranks above, and a line between ranks."""
    each = len(tokens) // num_ranks
    for rank in range(num_ranks):
        ax.text((rank + 0.5) * each - 0.5, -0.7, f"rank {rank}", ha="center", va="bottom", fontsize=8)
        if rank:
            ax.plot([rank * each - 0.5] * 2, [-0.5, num_experts - 0.5], color=MEASURED, linewidth=1)
    shown = [token if token.isascii() and token.isprintable() else "·" for token in tokens]
    ax.set_xticks(range(len(tokens)), ["␣" if token == " " else token for token in shown], fontsize=_letters(tokens))
    ax.set_yticks(range(num_experts), [str(expert) for expert in range(num_experts)], fontsize=8)
    ax.set_ylabel("expert", fontsize=8)
    ax.tick_params(length=0)
    ax.set_ylim(num_experts - 0.5, -1.6)
    ax.spines[["left", "bottom"]].set_visible(False)


def _letters(tokens: str) -> float:
    """The size of the characters in points: as large as a column of a wide figure allows."""
    return 9 if len(tokens) <= MOST_LARGE else 7


def draw_fullest(ax: Axes, runs: Mapping[str, Sequence[float]], *, target: float, title: str) -> str:
    """Draw the ratio of the fullest expert to the mean at each step, one line per run, and a target.

    runs: label -> ratio by step (1 is even). Returns the sentence. Raises ValueError for no runs, or too many.
    """
    if not 0 < len(runs) <= MOST_LINES or not all(runs.values()):
        raise ValueError(f"{len(runs)} runs cannot be distinguished: draw 1 to {MOST_LINES}, each of one step or more")
    styles = ["-", "--", ":", "-.", (0, (5, 1)), (0, (1, 3))]
    colours = [PALETTE[name] for name in ("communication", "backward", "optimizer", "parameters", "forward", "weights")]
    ends: list[Annotation] = []
    for (label, ratios), style, colour in zip(runs.items(), styles, colours, strict=False):
        ax.plot(range(len(ratios)), ratios, linestyle=style, color=colour, linewidth=1.6)
        ends.append(_end_label(ax, ratios[-1], label, colour))
    ax.axhline(target, color=MEASURED, linewidth=0.8)
    ends.append(_end_label(ax, target, f"target {target:g}", MEASURED))
    ax.set_yscale("log")
    ticks = [tick for tick in (1, 1.5, 2, 3, 5, 8, 16) if tick <= 1.2 * max(max(ratios) for ratios in runs.values())]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    ax.minorticks_off()
    ax.set_ylim(bottom=0.95)
    ax.set_xlabel("step", fontsize=8)
    ax.set_ylabel("fullest expert / mean", fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.set_title(title, loc="left", fontsize=10)
    keep_apart(cast(Figure, ax.figure), ends)
    listed = "; ".join(f"{label}: {ratios[0]:.2f}, at the end {ratios[-1]:.2f}" for label, ratios in runs.items())
    return f"In words: {title}. Fullest expert over the mean, by run: {listed}. The target is {target:g}."


def _end_label(ax: Axes, y: float, text: str, colour: str) -> Annotation:
    """The name of a line, to the right of the axes at the height where the line ends."""
    return ax.annotate(
        text, (1.0, y), (4, 0), ax.get_yaxis_transform(), "offset points", va="center", fontsize=8, color=ink(colour),
        annotation_clip=False,
    )  # fmt: skip


def draw_visits(ax: Axes, visits: Mapping[str, Sequence[int]], *, title: str) -> str:
    """Draw, for each kind of token, the share of its choices that went to each expert.

    visits: kind -> choices of each expert, [E]. Kinds without choices are omitted. Returns the sentence. Raises
    ValueError if nothing is left or there are too many experts.
    """
    shares = {kind: [number / sum(row) for number in row] for kind, row in visits.items() if sum(row)}
    num_experts = max((len(row) for row in shares.values()), default=0)
    if not 0 < num_experts <= MOST_EXPERTS:
        raise ValueError(f"visits to {num_experts} experts cannot be drawn: give choices of 1 to {MOST_EXPERTS}")
    blues = colormaps["Blues"]
    ax.imshow(list(shares.values()), cmap=blues, vmin=0, vmax=1, aspect="auto")
    for line, row in enumerate(shares.values()):
        for expert, share in enumerate(row):
            colour = text_colour(to_hex(blues(share)))
            ax.text(expert, line, f"{share:.0%}", ha="center", va="center", fontsize=7, color=colour)
    ax.set_xticks(range(num_experts), [str(expert) for expert in range(num_experts)], fontsize=8)
    ax.set_yticks(range(len(shares)), list(shares), fontsize=8)
    ax.set_xlabel("expert", fontsize=8)
    ax.tick_params(length=0)
    ax.set_title(title, loc="left", fontsize=10)
    favourites = [f"{kind} most often expert {row.index(max(row))} ({max(row):.0%})" for kind, row in shares.items()]
    return f"In words: {title}. {'; '.join(favourites)}."
