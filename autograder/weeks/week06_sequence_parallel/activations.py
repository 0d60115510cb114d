"""Bytes of one layer's activations: the six rows of table 2 of arXiv 2205.05198."""

from __future__ import annotations

from random import Random

from shardlab.costs.memory.stage import gpt_layer_activation_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import FORMULAS, formula_task, judge_numbers

SIZES = ("s", "b", "h", "a", "t")
ROWS: dict[str, dict] = {
    "without any parallelism": {"t": 1},
    "with tensor parallelism": {},
    "with tensor and sequence parallelism": {"sequence_parallel": True},
    "with tensor parallelism and selective recomputation": {"recompute": "selective"},
    "with both and selective recomputation": {"sequence_parallel": True, "recompute": "selective"},
    "with full recomputation": {"recompute": "full"},
}
GPT3 = {"s": 2048, "b": 1, "h": 12288, "a": 96, "t": 8}
SMALL = {"s": 512, "b": 4, "h": 768, "a": 12, "t": 2}


def expected(case: Case) -> list[float]:
    """Bytes for each row, in the order of ROWS."""
    sizes = {name: case[name] for name in SIZES}
    return [gpt_layer_activation_bytes(**(sizes | row)) for row in ROWS.values()]


def _draw(rng: Random) -> list[Case]:
    """One rank, two, and many; several sequences in a microbatch; scores that dominate, and scores that do not."""

    def case(t: int, b: int, s: int, heads_per_rank: int, width: int) -> Case:
        heads = t * heads_per_rank
        return {"s": s, "b": b, "h": heads * width, "a": heads, "t": t}

    return [
        case(1, rng.randint(2, 9), rng.randint(100, 900), rng.randint(2, 9), 64),
        case(2, 1, 2 * rng.randint(50, 900), rng.randint(2, 9), rng.choice([64, 128])),
        case(8, rng.randint(2, 4), 8 * rng.randint(500, 900), rng.randint(1, 4), 64),
        case(3, rng.randint(2, 4), 3 * rng.randint(10, 20), rng.randint(4, 9), 128),
    ]


CHECK = Check(
    exercise="week06.activations",
    points=1,
    names=("activation_bytes",),
    public=(GPT3, SMALL),
    draw=_draw,
    make=formula_task("activation_bytes", SIZES, expected),
    judge=judge_numbers([f"the memory kept on a rank {row}" for row in ROWS], unit="bytes"),
    program="without_ranks",
    masked=(*FORMULAS, "shardlab.costs"),
    hints=(
        "Three kinds of bytes: tensor parallelism replicates 10 and splits 24; the scores are 5as/h.",
        "Tensor parallelism divides 24 and the scores by t, sequence parallelism also the 10. Selective "
        "recomputation drops the scores. Full recomputation keeps the layer's input: 2 bytes per number.",
        "unit = s * b * h; scores = 5 * a * s / h; then unit * (34 + scores), unit * (10 + 24 / t + scores / t), …",
    ),
)
