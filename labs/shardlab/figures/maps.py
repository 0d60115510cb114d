"""Maps: ranks on their nodes with the groups of one of them, and the weeks of a learner's own trainer."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from shardlab.figures.palette import PALETTE, text_colour
from shardlab.mesh.axes import Mesh
from shardlab.mesh.nodes import position

MOST_NODES, MOST_ON_A_NODE = 32, 16
AXES = {  # color, hatch and letter of each axis: redundant channels for accessibility
    "tp": ("forward", "", "T"),
    "cp": ("weights", "...", "C"),
    "ep": ("optimizer", "xx", "E"),
    "dp": ("backward", "///", "D"),
    "pp": ("communication", "\\\\\\", "P"),
}


def draw_groups(
    ax: Axes, mesh: Mesh, rank: int, *, ranks_per_node: int = 8, axes: Sequence[str] | None = None, title: str = ""
) -> str:
    """Draw every rank as a box, one row per node, and mark the groups of `rank` on each axis of more than one rank.

    axes: which of tp, cp, ep, dp, pp to mark. A box in several groups has a strip and a letter for each.
    Returns the sentence. Raises ValueError for a rank that does not exist, an unknown axis, or too many boxes.
    """
    shown = [name for name in (axes or AXES) if len(mesh.group_of(rank, name)) > 1]
    num_nodes = -(-mesh.world // max(1, ranks_per_node))
    if not 0 < ranks_per_node <= MOST_ON_A_NODE or num_nodes > MOST_NODES:
        raise ValueError(
            f"{num_nodes} nodes of {ranks_per_node} ranks cannot be read: draw at most {MOST_NODES} nodes of 1 to "
            f"{MOST_ON_A_NODE}, or fewer replicas"
        )
    groups = {name: mesh.group_of(rank, name) for name in shown}
    for other in range(mesh.world):
        _draw_rank(ax, other, rank, ranks_per_node, [name for name in shown if other in groups[name]])
    for node in range(num_nodes):
        ax.text(-0.25, node, f"node {node}", ha="right", va="center", fontsize=8)
    _draw_legend(ax, groups, ranks_per_node)
    _finish(
        ax,
        max(num_nodes, len(groups)),
        ranks_per_node,
        title or f"Rank {rank} of {mesh.world} and the ranks it communicates with",
    )
    return _in_words(mesh, rank, groups, ranks_per_node)


def _draw_rank(ax: Axes, rank: int, centre: int, ranks_per_node: int, inside: list[str]) -> None:
    """One box with its number, and a colored, hatched strip and a letter for each group that it shares."""
    node, place = divmod(rank, ranks_per_node)
    left, width = place - 0.1, 0.92
    strips = [("idle", "")] if not inside or rank == centre else [AXES[name][:2] for name in inside]
    for number, (colour, hatch) in enumerate(strips):
        _box(ax, left + number * width / len(strips), node, width / len(strips), colour, hatch)
    letters = "" if rank == centre else "".join(AXES[name][2] for name in inside)
    text = ax.text(place + 0.36, node, f"{rank} {letters}".strip(), ha="center", va="center", fontsize=8, zorder=4)
    if letters:
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.0})
    if rank == centre:
        ax.add_patch(Rectangle((left, node - 0.38), width, 0.76, fill=False, linewidth=2.5, zorder=3))


def _box(ax: Axes, left: float, node: float, width: float, colour: str, hatch: str) -> None:
    fill = PALETTE[colour]
    ax.add_patch(Rectangle((left, node - 0.38), width, 0.76, facecolor=fill, edgecolor="white", hatch=hatch))


def _draw_legend(ax: Axes, groups: dict[str, list[int]], ranks_per_node: int) -> None:
    """List each axis next to the picture: its letter, its number of ranks, and the link that they use."""
    for line, (name, ranks) in enumerate(groups.items()):
        colour, hatch, letter = AXES[name]
        left = ranks_per_node + 0.4
        _box(ax, left, line, 0.7, colour, hatch)
        where = position(ranks, ranks_per_node)
        text = f"{letter}: {name}, {len(ranks)} ranks on {_counted(where.num_nodes, 'node')}, {where.link}"
        ax.text(left + 0.9, line, text, va="center", fontsize=8)


def _finish(ax: Axes, num_lines: int, ranks_per_node: int, title: str) -> None:
    ax.set_xlim(-1.6, ranks_per_node + 6.2)
    ax.set_ylim(num_lines - 0.4, -0.6)
    ax.set_axis_off()
    ax.set_title(title, fontsize=10, loc="left")


def _in_words(mesh: Mesh, rank: int, groups: dict[str, list[int]], ranks_per_node: int) -> str:
    num_nodes = -(-mesh.world // ranks_per_node)
    start = f"In words: {_counted(mesh.world, 'rank')} on {_counted(num_nodes, 'node')}"
    if not groups:
        return f"{start}; rank {rank} communicates with no other rank."
    parts = []
    for name, ranks in groups.items():
        where = position(ranks, ranks_per_node)
        listed = ", ".join(map(str, ranks if len(ranks) <= 8 else [*ranks[:3], "…", ranks[-1]]))
        parts.append(f"{name} with {listed} ({_counted(where.num_nodes, 'node')}, {where.link})")
    return f"{start}; rank {rank} shares " + "; ".join(parts) + "."


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


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
