"""Which ranges of the old ranks' files make up a new rank's slices; the files include padding."""

from __future__ import annotations

from random import Random
from typing import Any

from shardlab.costs.memory.states import shard_elements

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of
from autograder.checks.shards import MASKED

PADDING = -1


def files_of(unit_sizes: list[int], num_files: int) -> list[list[int]]:
    """The file of each old rank: its slice of every unit, in order. Each number is its own index; padding is -1."""
    files: list[list[int]] = [[] for _ in range(num_files)]
    begin = 0
    for num in unit_sizes:
        shard, padding = shard_elements(num, num_files)
        padded = [*range(begin, begin + num), *[PADDING] * padding]
        for number, file in enumerate(files):
            file.extend(padded[number * shard : (number + 1) * shard])
        begin += num
    return files


def _expected(case: Case) -> tuple[list[int], int]:
    """The numbers that the new rank needs, in order, and in how many ranges they are stored, one per unit and file."""
    needed = [n for n in files_of(case["unit_sizes"], case["num_ranks"])[case["rank"]] if n != PADDING]
    file_of = {n: number for number, file in enumerate(files_of(case["unit_sizes"], case["num_files"])) for n in file}
    unit_of = [unit for unit, num in enumerate(case["unit_sizes"]) for _ in range(num)]
    return needed, len({(unit_of[n], file_of[n]) for n in needed})


def _make(case: Case, rng: Random) -> Task:
    given = [case[name] for name in ("unit_sizes", "num_files", "num_ranks", "rank")]
    return Task("reading_plan", 1, inputs=[[given]], expected=[_expected(case)], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, (needed, pieces) = value_of(reply), task.expected[0]
    files = files_of(case["unit_sizes"], case["num_files"])
    told = f"Units of {case['unit_sizes']} in {case['num_files']} files, rank {case['rank']} of {case['num_ranks']}"
    if not isinstance(received, list | tuple) or not all(_is_piece(piece, files) for piece in received):
        longest = len(files[0])
        return f"{told}: return a list of (file, begin, end), with 0 <= begin <= end <= {longest}, the files' length."
    if len(received) > pieces:
        return f"{told}: {len(received)} ranges where {pieces} are enough. Merge adjacent ranges, and omit empty ones."
    problem = _wrong_numbers([number for file, begin, end in received for number in files[file][begin:end]], needed)
    return problem and f"{told}: {problem}"


def _wrong_numbers(read: list[int], needed: list[int]) -> str | None:
    if PADDING in read:
        return "you read padding as if it were a weight."
    if len(read) != len(needed):
        return f"you read {len(read)} numbers where {len(needed)} are expected."
    wrong = [place for place, (a, b) in enumerate(zip(read, needed, strict=True)) if a != b]
    return f"number {wrong[0]} of those you read is not the expected one." if wrong else None


def _is_piece(piece: Any, files: list[list[int]]) -> bool:
    if not isinstance(piece, list | tuple) or len(piece) != 3 or any(type(number) is not int for number in piece):
        return False
    file, begin, end = piece
    return 0 <= file < len(files) and 0 <= begin <= end <= len(files[file])


def _draw(rng: Random) -> list[Case]:
    odd = [4 * rng.randint(3, 9) + rest for rest in (1, 3, 2)]
    cases = [
        {"unit_sizes": odd, "num_files": 4, "num_ranks": 2},
        {"unit_sizes": [*reversed(odd), 24], "num_files": 2, "num_ranks": 4},
        {"unit_sizes": [rng.randint(20, 40), 7, rng.randint(20, 40)], "num_files": 4, "num_ranks": 3},
        {"unit_sizes": [5, 2, rng.randint(10, 20)], "num_files": 8, "num_ranks": 3},  # some ranks hold only padding
        {"unit_sizes": [rng.randint(10, 30)] * 2, "num_files": 3, "num_ranks": 3},
    ]
    return [case | {"rank": rank} for case in cases for rank in sorted({0, 1, case["num_ranks"] - 1})]


CHECK = Check(
    exercise="week04.reshard",
    points=3,
    optional=True,
    names=("reading_plan",),
    public=tuple(
        {"unit_sizes": sizes, "num_files": 4, "num_ranks": 2, "rank": r} for sizes in ([10, 6], [9]) for r in (0, 1)
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    hints=(
        "Take one unit first: the old and the new slice are two intervals of the same vector. Where do they overlap?",
        "File f holds [f * old, (f + 1) * old) of the unit; you need [r * new, (r + 1) * new), and nothing past the "
        "unit's size. The range goes from the larger begin to the smaller end.",
        "In the file, subtract f * old and add the slices of all earlier units, each with its own `old` numbers.",
    ),
)
