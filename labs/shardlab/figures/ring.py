"""The ring all-reduce as a table: the contents of each rank, and the chunks sent in this step."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from shardlab.costs.traffic import all_reduce_messages, ring_chunk_sizes
from shardlab.figures.palette import PALETTE, text_colour

PARTIAL = "#FAF5BE"  # a gradient (the weights' yellow) that is not yet complete
Table = list[list[frozenset[int]]]


class Message(NamedTuple):
    """One chunk sent from a rank to the next."""

    chunk: int
    source: int
    destination: int


def ring_messages(num_ranks: int, step: int) -> list[Message]:
    """The N messages of one step; none in step 2(N-1), when the all-reduce is done.

    In step s of the reduce-scatter, rank r sends chunk r-1-s; in step s of the all-gather, it sends chunk r-s.
    """
    last = all_reduce_messages(num_ranks, "ring")
    if not 0 <= step <= last:
        raise ValueError(f"a ring of {num_ranks} ranks has no step {step}: use 0 to {last}")
    if step == last:
        return []
    gathering = step >= num_ranks - 1
    chunk_of_rank_0 = num_ranks - 1 - step if gathering else -1 - step
    return [Message((rank + chunk_of_rank_0) % num_ranks, rank, (rank + 1) % num_ranks) for rank in range(num_ranks)]


def ring_table(num_ranks: int, step: int) -> Table:
    """table[rank][chunk] = the ranks whose parts are included in that sum when `step` begins."""
    ring_messages(num_ranks, step)
    table = [[frozenset([rank])] * num_ranks for rank in range(num_ranks)]
    for done in range(step):
        before = [list(row) for row in table]
        for chunk, source, destination in ring_messages(num_ranks, done):
            table[destination][chunk] = before[source][chunk] | before[destination][chunk]
    return table


def draw_ring_step(ax: Axes, num_ranks: int, step: int, *, numbers: Sequence[Sequence[float]] | None = None) -> str:
    """Draw the table when `step` begins, and an arrow for each chunk sent in it; returns the sentence.

    num_ranks: 2 to 8. step: 0 to 2(N-1), where the last shows the result.
    numbers: the initial contents of each rank, of equal length; without them, cells name ranks ("0+1").
    """
    if not 2 <= num_ranks <= 8:
        raise ValueError(f"a table of {num_ranks} ranks cannot be read: draw 2 to 8")
    if numbers is not None and (len(numbers) != num_ranks or len({len(row) for row in numbers}) != 1):
        raise ValueError(f"give {num_ranks} lists of numbers of one length, one list per rank")
    table, messages = ring_table(num_ranks, step), ring_messages(num_ranks, step)
    sending = {(message.source, message.chunk) for message in messages}

    for rank, row in enumerate(table):
        for chunk, parts in enumerate(row):
            text = _sum_of_ranks(parts, num_ranks) if numbers is None else _sum_of_numbers(parts, chunk, numbers)
            _draw_cell(ax, (rank, chunk), text, _fill(parts, num_ranks), travels=(rank, chunk) in sending)
    for message in messages:
        _draw_arrow(ax, message, num_ranks)

    ax.set_xlim(-0.62, num_ranks - 0.38)
    ax.set_ylim(num_ranks - 0.2, -0.8)
    ax.set_xticks(range(num_ranks), [f"chunk {chunk}" for chunk in range(num_ranks)], fontsize=9)
    ax.set_yticks(range(num_ranks), [f"rank {rank}" for rank in range(num_ranks)], fontsize=9)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(_title(num_ranks, step), loc="left", fontsize=10)
    return _sentence(num_ranks, step, table, messages)


def _draw_cell(ax: Axes, place: tuple[int, int], text: str, fill: str, *, travels: bool) -> None:
    rank, chunk = place
    frame = {"edgecolor": "black", "linewidth": 2.0} if travels else {"edgecolor": "white", "linewidth": 1.0}
    ax.add_patch(Rectangle((chunk - 0.44, rank - 0.28), 0.88, 0.56, facecolor=fill, zorder=2, **frame))
    size = 9 if len(text) <= 9 else 7
    ax.text(chunk, rank, text, ha="center", va="center", fontsize=size, color=text_colour(fill), zorder=4)


def _draw_arrow(ax: Axes, message: Message, num_ranks: int) -> None:
    """An arrow down to the next rank; from the last rank, out of the table and in again above rank 0."""
    style = {"arrowstyle": "-|>", "mutation_scale": 13, "color": PALETTE["communication"], "linewidth": 2, "zorder": 3}
    x, low = message.chunk, message.source + 0.28
    if message.destination:
        ax.add_patch(FancyArrowPatch((x, low), (x, low + 0.44), shrinkA=0, shrinkB=0, **style))
        return
    ax.add_patch(FancyArrowPatch((x, low), (x, low + 0.34), shrinkA=0, shrinkB=0, **style))
    ax.add_patch(FancyArrowPatch((x, -0.66), (x, -0.28), shrinkA=0, shrinkB=0, **style))
    ax.text(x + 0.07, low + 0.2, "to rank 0", fontsize=7, va="center")
    ax.text(x + 0.07, -0.5, f"from rank {num_ranks - 1}", fontsize=7, va="center")


def _fill(parts: frozenset[int], num_ranks: int) -> str:
    if len(parts) == num_ranks:
        return PALETTE["weights"]
    return PARTIAL if len(parts) > 1 else PALETTE["idle"]


def _sum_of_ranks(parts: frozenset[int], num_ranks: int) -> str:
    return "sum" if len(parts) == num_ranks else "+".join(str(rank) for rank in sorted(parts))


def _sum_of_numbers(parts: frozenset[int], chunk: int, numbers: Sequence[Sequence[float]]) -> str:
    sizes = ring_chunk_sizes(len(numbers[0]), len(numbers))
    begin = sum(sizes[:chunk])
    sums = [sum(numbers[rank][place] for rank in parts) for place in range(begin, begin + sizes[chunk])]
    return "  ".join(f"{value:g}" for value in sums)


def _phase(num_ranks: int, step: int) -> str:
    if step == all_reduce_messages(num_ranks, "ring"):
        return "done"
    return "reduce-scatter" if step < num_ranks - 1 else "all-gather"


def _title(num_ranks: int, step: int) -> str:
    last = all_reduce_messages(num_ranks, "ring")
    finding = {
        "done": "every rank holds the sum",
        "reduce-scatter": "send right, add",
        "all-gather": "send right, keep",
    }[_phase(num_ranks, step)]
    return f"Step {step} of {last} · {_phase(num_ranks, step)}: {finding}"


def _sentence(num_ranks: int, step: int, table: Table, messages: list[Message]) -> str:
    finished = sum(len(parts) == num_ranks for row in table for parts in row)
    state = f"{finished} of {num_ranks * num_ranks} cells hold the whole sum"
    if not messages:
        return f"In words: after {step} steps {state}; each rank has sent {step} chunks of S/{num_ranks}."
    moves = ", ".join(f"rank {m.source} sends chunk {m.chunk} to rank {m.destination}" for m in messages)
    return f"In words: in step {step} ({_phase(num_ranks, step)}) {moves}; when it begins, {state}."
