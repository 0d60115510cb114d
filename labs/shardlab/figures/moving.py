"""Frames of three animations: FSDP's shards gathered and freed, keys on a ring, rows on their way to experts and back.

Each is computed from the data of a lesson: a plan of gathers, the owners of chunks, the choices of a router.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shardlab.figures.animation import FRAME, Frame, arrow, box, label, svg
from shardlab.figures.palette import PALETTE
from shardlab.figures.squares import rank_colours

OWN, ARRIVED, ABSENT = PALETTE["forward"], PALETTE["communication"], PALETTE["idle"]
WIDTH, MOST_ROWS = 720, 24


# ---- FSDP: a plan of gathers -----------------------------------------------------------------------------------------


def gather_frames(plan: Sequence[str], num_ranks: int) -> list[Frame]:
    """Show what every rank holds at rest and after each event of a plan such as "gather 0", "forward 0", "free 0".

    Raises ValueError for an event that is not one of gather, forward, backward and free with the number of a unit, and
    for a plan that uses a unit that is not gathered.
    """
    events = [_event(text) for text in plan]
    num_units, held = 1 + max((unit for _, unit in events), default=0), set[int]()
    rest = f"At rest, each of {num_ranks} ranks holds one slice of each of {num_units} units."
    frames = [Frame(_shards(num_ranks, num_units, held, ("at rest", -1)), rest)]
    for verb, unit in events:
        if verb == "gather":
            held.add(unit)
        elif unit not in held:
            raise ValueError(f"the plan says {verb} {unit}, but unit {unit} is not gathered: gather it first")
        elif verb == "free":
            held.remove(unit)
        whole = ", ".join(map(str, sorted(held))) or "none"
        sentence = f"{_what_happens(verb, unit, num_ranks)} Whole units on each rank: {whole}."
        frames.append(Frame(_shards(num_ranks, num_units, held, (verb, unit)), sentence))
    return frames


def _event(text: str) -> tuple[str, int]:
    verb, _, unit = text.partition(" ")
    if verb not in ("gather", "forward", "backward", "free") or not unit.isdecimal():
        raise ValueError(f"{text!r} is no event: use gather, forward, backward or free and a unit, such as 'gather 0'")
    return verb, int(unit)


def _what_happens(verb: str, unit: int, num_ranks: int) -> str:
    others = "the other slice" if num_ranks == 2 else f"the other {num_ranks - 1} slices"
    return {
        "gather": f"Gather {unit}: every rank receives {others} of unit {unit}.",
        "forward": f"Forward {unit}: every rank computes with the whole of unit {unit}.",
        "backward": f"Backward {unit}: every rank computes the gradient of unit {unit} and keeps its own slice of it.",
        "free": f"Free {unit}: every rank keeps only its own slice of unit {unit}.",
    }[verb]


def _shards(num_ranks: int, num_units: int, held: set[int], event: tuple[str, int]) -> str:
    """A line for each rank, a group of slices for each unit, and how many slices the rank holds."""
    verb, now = event
    wide, left, line = (WIDTH - 200) / num_units, 60, 36
    parts = [label(WIDTH - 60, 20, "slices held", anchor="middle")]
    for unit in range(num_units):
        text = f"unit {unit}" + (f": {verb}" if unit == now else "")
        parts.append(label(left + (unit + 0.47) * wide, 20, text, anchor="middle"))
    for rank in range(num_ranks):
        y = 40 + rank * line
        parts.append(label(0, y + 13, f"rank {rank}"))
        for unit in range(num_units):
            each, x = 0.94 * wide / num_ranks, left + unit * wide
            for owner in range(num_ranks):
                here = owner == rank or unit in held
                fill = OWN if owner == rank else ARRIVED if here else ABSENT
                parts.append(box(x + owner * each, y, each, 26, fill, str(owner) if here else ""))
            if unit == now:
                parts.append(_frame(x - 2, y - 2, 0.94 * wide + 4, 30))
        count = num_units + len(held) * (num_ranks - 1)
        parts.append(label(WIDTH - 60, y + 13, f"{count} of {num_units * num_ranks}", anchor="middle"))
    return svg(WIDTH, 46 + num_ranks * line, parts)


def _frame(x: float, y: float, width: float, height: float) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} fill="none" stroke="{FRAME}" stroke-width="3"/>'


# ---- the ring: which keys are where, and the blocks of scores they give ----------------------------------------------


def ring_frames(owners: Sequence[int]) -> list[Frame]:
    """Keys and values on their way around the ring, and the blocks of a causal mask that each step computes.

    owners[i]: the rank that has chunk i, as from `chunk_owners`.
    """
    num_ranks = max(owners) + 1
    frames = []
    for step in range(num_ranks):
        here = [(rank - step) % num_ranks for rank in range(num_ranks)]
        work = [_work(owners, rank, block) for rank, block in enumerate(here)]
        has = ", ".join(f"rank {rank} has rank {block}'s" for rank, block in enumerate(here))
        sends = "Meanwhile each rank sends them on to the next." if step < num_ranks - 1 else "Nothing more is sent."
        frames.append(Frame(_ring(owners, step), f"Step {step}, keys and values: {has}. {_in_words(work)} {sends}"))
    return frames


def _work(owners: Sequence[int], rank: int, block: int) -> float:
    """Blocks of scores that a rank computes with another rank's keys; on the diagonal, half a block."""
    queries, keys = (_chunks(owners, one) for one in (rank, block))
    return sum(0.5 if query == key else float(key < query) for query in queries for key in keys)


def _in_words(work: Sequence[float]) -> str:
    if len(set(work)) == 1:
        return f"Each computes {work[0]:g} blocks of scores."
    listed = ", ".join(f"{blocks:g} by rank {rank}" for rank, blocks in enumerate(work))
    return f"Blocks of scores computed: {listed}."


def _ring(owners: Sequence[int], step: int) -> str:
    num_ranks, colours = max(owners) + 1, rank_colours(max(owners) + 1)
    side = 20 * len(owners)
    wide = (WIDTH - side - 70) / num_ranks
    parts = [
        label(0, 14, "queries stay"),
        label(0, 116, f"keys and values, after {step} {'hop' if step == 1 else 'hops'}"),
    ]
    for rank in range(num_ranks):
        x, block = rank * wide, (rank - step) % num_ranks
        mine, theirs = (", ".join(map(str, _chunks(owners, one))) for one in (rank, block))
        parts.append(box(x, 28, 0.8 * wide, 48, colours[rank], f"Q {mine}"))
        parts.append(label(x + 0.4 * wide, 88, f"rank {rank}", anchor="middle"))
        parts.append(box(x, 130, 0.8 * wide, 48, colours[block], f"KV {theirs}"))
        if step < num_ranks - 1 and rank < num_ranks - 1:
            parts.append(arrow(x + 0.8 * wide, 154, x + wide, 154))
    if step < num_ranks - 1:
        last = (num_ranks - 0.6) * wide
        parts += [_line(last, 178, last, 200), _line(last, 200, 0.4 * wide, 200)]
        parts.append(arrow(0.4 * wide, 200, 0.4 * wide, 179))
    return svg(WIDTH, max(206, side + 40), parts + _square(owners, step, WIDTH - side - 3, colours))


def _chunks(owners: Sequence[int], rank: int) -> list[int]:
    return [chunk for chunk, owner in enumerate(owners) if owner == rank]


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    ends = f'x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}"'
    return f'<line {ends} stroke="currentColor" stroke-width="1.5"/>'


def _square(owners: Sequence[int], step: int, left: float, colours: Sequence[str]) -> list[str]:
    """The causal mask: blocks computed so far have their step, those of this step a frame."""
    parts, num_ranks, framed = [label(WIDTH - 3, 14, "blocks of scores: step", anchor="end")], len(colours), []
    for query, rank in enumerate(owners):
        for key, owner in enumerate(owners[: query + 1]):
            at = (rank - owner) % num_ranks
            fill, text = (colours[rank], str(at)) if at <= step else (ABSENT, "")
            (framed if at == step else parts).append(
                box(left + 20 * key, 28 + 20 * query, 20, 20, fill, text, framed=at == step)
            )
    return parts + framed


# ---- experts: rows there and back ------------------------------------------------------------------------------------


def dispatch_frames(choices: Sequence[Sequence[Sequence[int]]], num_experts: int) -> list[Frame]:
    """Tokens become rows, rows travel to their experts' ranks, and their results back to the tokens.

    choices[rank][token]: the experts that a token chose. Each rank has an equal, consecutive part of the experts.
    Raises ValueError for experts that cannot be split evenly, and for an unknown expert.
    """
    num_ranks = len(choices)
    if num_experts % num_ranks:
        raise ValueError(f"{num_experts} experts cannot be split over {num_ranks} ranks: use a multiple of {num_ranks}")
    if strange := [one for mine in choices for token in mine for one in token if not 0 <= one < num_experts]:
        raise ValueError(f"there is no expert {strange[0]}: they are 0 to {num_experts - 1}")
    rows = _rows(choices, num_experts // num_ranks)
    if not 0 < len(rows) <= MOST_ROWS:
        raise ValueError(f"{len(rows)} rows cannot be read: draw 1 to {MOST_ROWS}")
    tokens = ", ".join(f"rank {rank} has {' '.join(_names(choices, rank))}" for rank in range(num_ranks))
    sent = "; ".join(_sends(rows, rank, num_ranks) for rank in range(num_ranks))
    load = ", ".join(f"expert {one} has {sum(row[2] == one for row in rows)}" for one in range(num_experts))
    back = ", ".join(f"{sum(row[3] == rank for row in rows)} from rank {rank}" for rank in range(num_ranks))
    words = {
        "tokens": f"Tokens: {tokens}.",
        "rows": "Each token becomes one row per chosen expert, and a rank sorts its rows by expert. Read "
        f"{rows[0][1]} {rows[0][2]} as: the row of token {rows[0][1]} for expert {rows[0][2]}.",
        "dispatch": f"Dispatch, an all-to-all: {sent}.",
        "experts": f"Each expert computes all its rows at once: {load}. The rank with the most rows finishes last.",
        "combine": f"Combine, the reverse all-to-all: every row returns to the rank of its token; {back}.",
        "sums": "Each token adds its rows, multiplied by the router's weights. The tokens are where they began.",
    }
    return [Frame(_travel(choices, rows, num_experts, stage), sentence) for stage, sentence in words.items()]


Row = tuple[int, str, int, int]  # rank of the token, token, expert, rank of the expert


def _rows(choices: Sequence[Sequence[Sequence[int]]], each: int) -> list[Row]:
    """All rows, by the rank of their token and then by expert."""
    found = [
        (rank, name, expert, expert // each)
        for rank, mine in enumerate(choices)
        for name, chosen in zip(_names(choices, rank), mine, strict=True)
        for expert in chosen
    ]
    return sorted(found, key=lambda row: (row[0], row[2]))


def _names(choices: Sequence[Sequence[Sequence[int]]], rank: int) -> list[str]:
    before = sum(map(len, choices[:rank]))
    return [chr(ord("a") + (before + place) % 26) for place in range(len(choices[rank]))]


def _sends(rows: Sequence[Row], rank: int, num_ranks: int) -> str:
    count = [sum((row[0], row[3]) == (rank, other) for row in rows) for other in range(num_ranks)]
    away = ", ".join(f"{num} to rank {other}" for other, num in enumerate(count) if other != rank)
    return f"rank {rank} keeps {count[rank]} rows and sends {away}"


def _travel(choices: Sequence[Sequence[Sequence[int]]], rows: Sequence[Row], num_experts: int, stage: str) -> str:
    """Above, each rank's tokens or rows; below, the rows at each rank's experts, with arrows while they travel."""
    num_ranks, colours = len(choices), rank_colours(num_experts)
    wide = WIDTH / num_ranks
    each = min(37, (wide - 12) / max(max(Counter(row[at] for row in rows).values()) for at in (0, 3)))
    above = _places([(row, row[0]) for row in rows], wide, each)
    below = _places([(row, row[3]) for row in sorted(rows, key=lambda row: row[2])], wide, each)
    parts = []
    for rank in range(num_ranks):
        own = num_experts // num_ranks
        parts += [label(rank * wide + 4, 12, f"rank {rank}"), label(rank * wide + 4, 206, _experts(rank, own))]
        names = _names(choices, rank) if stage in ("tokens", "sums") else []
        parts += [box(rank * wide + 4 + 44 * at, 26, 40, 26, OWN, name) for at, name in enumerate(names)]
    for row in rows:
        x, to_x, text = above[row], below[row], f"{row[1]} {row[2]}"
        if stage in ("rows", "dispatch", "combine"):
            parts.append(box(x, 26, each - 3, 26, colours[row[2]], text))
        if stage in ("dispatch", "experts", "combine"):
            parts.append(box(to_x, 166, each - 3, 26, colours[row[2]], text, framed=stage == "experts"))
        ends = (x + each / 2, 54), (to_x + each / 2, 164)
        if stage in ("dispatch", "combine"):
            begin, end = ends if stage == "dispatch" else ends[::-1]
            parts.append(arrow(*begin, *end))
    return svg(WIDTH, 218, parts)


def _places(rows: Sequence[tuple[Row, int]], wide: float, each: float) -> dict[Row, float]:
    """The left edge of each row, in order, on the rank where it is."""
    found, count = dict[Row, float](), Counter[int]()
    for row, rank in rows:
        found[row] = rank * wide + 4 + each * count[rank]
        count[rank] += 1
    return found


def _experts(rank: int, own: int) -> str:
    return f"experts {rank * own} to {(rank + 1) * own - 1}" if own > 1 else f"expert {rank}"
