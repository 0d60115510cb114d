"""Bytes of keys and values in a ring, bytes of Ulysses, and the number of ranks from which Ulysses sends less."""

from __future__ import annotations

from random import Random

from shardlab.costs.traffic import all_to_all_bytes, ring_all_gather_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import FORMULAS, formula_task, judge_numbers

SIZES = ("c", "b", "s", "heads", "kv_heads", "width")
NAMES = (
    "the bytes of keys and values that a rank sends in a ring or an all-gather",
    "the bytes that it sends with Ulysses",
    "the smallest c for which Ulysses sends less",
)
LLAMA3_405B = {"c": 16, "b": 1, "s": 131_072, "heads": 128, "kv_heads": 8, "width": 128}
BF16 = 2


def expected(case: Case) -> list[float]:
    """The three numbers of NAMES for one layer's forward: bytes, bytes, ranks."""
    tokens, per_head = case["b"] * case["s"], BF16 * case["width"]
    ring = ring_all_gather_bytes(case["c"], 2 * tokens * case["kv_heads"] * per_head)
    local = tokens / case["c"] * 2 * (case["heads"] + case["kv_heads"]) * per_head
    least = 2
    while least * case["kv_heads"] <= case["heads"] + case["kv_heads"]:
        least += 1
    return [ring, all_to_all_bytes(case["c"], local), least]


def _draw(rng: Random) -> list[Case]:
    """One rank, two, many; keys for every head, and for few; numbers of key heads that c does not divide."""

    def case(c: int, kv_heads: int, shared: int, b: int = 1) -> Case:
        return {
            "c": c,
            "b": b,
            "s": 2 * c * rng.randint(100, 900),
            "heads": kv_heads * shared,
            "kv_heads": kv_heads,
        } | {"width": rng.choice([64, 96, 128])}

    return [
        case(1, rng.randint(2, 9), 4),
        case(2, rng.randint(2, 32), 1, rng.randint(2, 4)),
        case(rng.randint(3, 9), 8, rng.randint(2, 8), rng.randint(2, 4)),
        case(64, rng.randint(2, 8), 16),
    ]


CHECK = Check(
    exercise="week14.bill",
    points=1,
    names=("kv_bill",),
    public=(LLAMA3_405B, {"c": 4, "b": 2, "s": 8192, "heads": 32, "kv_heads": 32, "width": 128}),
    draw=_draw,
    make=formula_task("kv_bill", SIZES, expected),
    judge=judge_numbers(NAMES),
    program="without_ranks",
    masked=(*FORMULAS, "shardlab.costs"),
    hints=(
        "How many numbers are in the keys and values of one rank's positions? How often does a rank send such a block?",
        "Ring: (c - 1) · 2 · 2 · b · (s/c) · kv_heads · width. Ulysses moves q, k, v and o once each, and (c - 1)/c of "
        "each leaves the rank.",
        "Ulysses sends less when (heads + kv_heads) / c < kv_heads: solve for c, and take the next larger integer.",
    ),
)
