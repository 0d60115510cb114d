"""A checkpoint for another mesh: for each wanted piece, the saved pieces to read and the part of each."""

from __future__ import annotations

from random import Random
from typing import Any

from shardlab.hybrid.part import layers_of

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call

Piece = dict[str, Any]
Place = tuple[int, int]  # a row and a column
ROWS, COLUMNS = 12, 24
CUT, LOST = "cut", "lost"
SAME = {"saved": [1, 1, 1, 1], "wanted": [1, 1, 1, 1], "layers": 2, "experts": 2, "what": CUT}
OTHER_TP = SAME | {"saved": [2, 1, 1, 1], "wanted": [3, 1, 1, 1]}
OTHER_PP_EP = {"saved": [1, 2, 2, 2], "wanted": [1, 3, 1, 1], "layers": 6, "experts": 4, "what": CUT}
INCOMPLETE = {"saved": [2, 2, 1, 1], "wanted": [1, 1, 1, 1], "layers": 4, "experts": 2, "what": LOST}


def pieces(mesh: list[int], layers: int, experts: int) -> list[Piece]:
    """The pieces of the ranks of a mesh [tp, pp, ep, dp], in rank order; layers and experts have local numbers.

    tp ranks split the columns of "up" and the rows of "down"; a "norm" and each expert are whole.
    """
    tp, pp, ep, dp = mesh
    found = []
    for stage in range(pp):
        own = layers_of(stage, pp, layers)
        for rank in range(dp * tp):
            place, expert_place = rank % tp, rank % ep
            for local in range(len(own)):
                at = {"layer": local, "first_layer": own.start, "expert": -1, "first_expert": -1}
                found.append(at | {"part": "up", "rows": [0, ROWS], "columns": _share(COLUMNS, tp, place)})
                found.append(at | {"part": "down", "rows": _share(COLUMNS, tp, place), "columns": [0, ROWS]})
                found.append(at | {"part": "norm", "rows": [0, 1], "columns": [0, ROWS]})
                for expert in range(experts // ep):
                    mine = at | {"expert": expert, "first_expert": expert_place * (experts // ep)}
                    found.append(mine | {"part": "up", "rows": [0, ROWS], "columns": [0, COLUMNS]})
    return found


def _share(size: int, num: int, place: int) -> list[int]:
    return [size * place // num, size * (place + 1) // num]


def tensor_of(piece: Piece) -> tuple[int, int, str]:
    """The tensor of the whole model that a piece belongs to: layer, expert (-1 for none), part."""
    expert = piece["first_expert"] + piece["expert"] if piece["expert"] >= 0 else -1
    return piece["first_layer"] + piece["layer"], expert, piece["part"]


def _make(case: Case, rng: Random) -> Task:
    sizes = case["layers"], case["experts"]
    saved, wanted = pieces(case["saved"], *sizes), pieces(case["wanted"], *sizes)
    if case["what"] == LOST:  # one piece and its copies are gone, so one tensor is incomplete
        lost = rng.randrange(len(saved))
        same = tensor_of(saved[lost]), saved[lost]["rows"], saved[lost]["columns"]
        saved = [one for one in saved if (tensor_of(one), one["rows"], one["columns"]) != same]
    rng.shuffle(saved)
    rng.shuffle(wanted)
    return Task("all_reads", 1, [[[saved, wanted]]], [(saved, wanted)], [])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    saved, wanted = task.expected[0]
    answers = numbers_of(reply)
    if not isinstance(answers, list) or len(answers) != len(wanted):
        return "all_reads must return one entry per wanted piece."
    for piece, answer in zip(wanted, answers, strict=True):
        if problem := _wrong_reads(piece, answer, saved):
            return problem
    return None


def _wrong_reads(piece: Piece, answer: Any, saved: list[Piece]) -> str | None:
    tensor = tensor_of(piece)
    has = [_numbers(one) if tensor_of(one) == tensor else set() for one in saved]
    complete = _numbers(piece) <= set().union(*has)
    if answer is None:
        return f"reads returns None for {_named(tensor)}, but the checkpoint has all of it." if complete else None
    if not complete:
        return f"A part of {_named(tensor)} is missing: return None, or an incomplete model continues training."
    if not isinstance(answer, list) or not all(_is_read(one, len(saved)) for one in answer):
        return f"For {_named(tensor)} return a list of [index in saved, [row, row end], [column, column end]]."
    return _wrong_blocks(piece, answer, saved, has)


def _wrong_blocks(piece: Piece, answer: list[Any], saved: list[Piece], has: list[set[Place]]) -> str | None:
    tensor, due, found = tensor_of(piece), _numbers(piece), set[Place]()
    for number, rows, columns in answer:
        block = {(row, column) for row in range(*rows) for column in range(*columns)}
        if tensor_of(saved[number]) != tensor:
            return f"{_named(tensor)} is read from a piece of {_named(tensor_of(saved[number]))} of the whole model."
        if not block <= has[number]:
            return f"For {_named(tensor)}, piece {number} does not have rows {rows}, columns {columns}."
        if block & found:
            return f"For {_named(tensor)} some numbers are read twice: replicas have copies, and one is enough."
        found |= block
    if found != due:
        missing, more = len(due - found), len(found - due)
        return f"For {_named(tensor)}, {missing} numbers are missing and {more} are not wanted."
    return None


def _named(tensor: tuple[int, int, str]) -> str:
    layer, expert, part = tensor
    return f"{part} of layer {layer}" + (f", expert {expert}" if expert >= 0 else "")


def _numbers(piece: Piece) -> set[Place]:
    return {(row, column) for row in range(*piece["rows"]) for column in range(*piece["columns"])}


def _is_read(one: Any, num_saved: int) -> bool:
    if not isinstance(one, list | tuple) or len(one) != 3 or type(one[0]) is not int or not 0 <= one[0] < num_saved:
        return False
    return all(
        isinstance(span, list | tuple)
        and len(span) == 2
        and all(type(end) is int and 0 <= end <= max(ROWS, COLUMNS) for end in span)
        for span in one[1:]
    )


def _draw(rng: Random) -> list[Case]:
    """Other sizes of tp that do and do not divide, uneven pipeline stages, another ep, replicas, and a lost piece."""

    def case(saved: list[int], wanted: list[int], what: str = CUT) -> Case:
        sizes = {"layers": rng.randint(4, 6), "experts": 4}
        return {"saved": saved, "wanted": wanted, "what": what} | sizes

    return [
        case([4, 1, 1, 1], [2, 2, 1, 1]),
        case([2, 1, 1, 2], [3, 1, 2, 1]),
        case([1, 3, 1, 1], [1, 2, 1, 2]),
        case([1, 1, 4, 4], [1, 4, 2, 2]),
        case([2, 2, 2, 2], [3, 3, 4, 4]),
        case([2, 2, 1, 1], [1, 1, 1, 1], LOST),
    ]


CHECK = Check(
    exercise="week15.reshard",
    points=3,
    optional=True,
    names=("all_reads",),
    public=(OTHER_TP, OTHER_PP_EP, INCOMPLETE),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.hybrid", "shardlab.train", "shardlab.tensor_parallel", "shardlab.data_parallel"),
    timeout=20.0,
    hints=(
        "Name both sides by the whole model: first_layer + layer, and first_expert + expert if there is one.",
        "Two spans overlap from the larger begin to the smaller end. Read a block only if no copy of it was read yet.",
        "Keep a set of the blocks (rows, columns) already read. Add up their areas: if the sum is less than the wanted "
        "piece's area, return None.",
    ),
)
