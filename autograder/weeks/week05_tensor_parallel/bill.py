"""Bytes that tensor parallelism sends: for a layer, and for the loss with three numbers per token or all logits."""

from __future__ import annotations

from random import Random

from shardlab.costs.axis_traffic import tp_layer_bytes
from shardlab.costs.layout import Layout
from shardlab.costs.models.zoo import gpt
from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.weeks.week05_tensor_parallel._shared import COSTS_MASKED

SIZES = ("num_ranks", "batch", "sequence", "hidden", "vocabulary")
NAMES = (
    "the bytes of a layer's forward and backward",
    "the bytes of the loss with three numbers per token",
    "the bytes of the loss with all logits gathered",
)
LLAMA = {"num_ranks": 8, "batch": 1, "sequence": 8192, "hidden": 4096, "vocabulary": 128256}
BF16, FP32, NUMBERS_PER_TOKEN = 2, 4, 3


def expected(case: Case) -> list[float]:
    """The three numbers, in the order of NAMES, in bytes."""
    ranks, tokens = case["num_ranks"], case["batch"] * case["sequence"]
    model = gpt("a model", 1, case["hidden"], 1, sequence=case["sequence"])
    layout = Layout(tp=ranks, microbatch=case["batch"])
    return [
        2 * tp_layer_bytes(model, layout),
        ring_all_reduce_bytes(ranks, FP32 * NUMBERS_PER_TOKEN * tokens),
        ring_all_gather_bytes(ranks, BF16 * tokens * case["vocabulary"]),
    ]


def _draw(rng: Random) -> list[Case]:
    """One rank, two, and many; batches of one sequence and of several."""

    def case(num_ranks: int, batch: int) -> Case:
        sizes = {"sequence": rng.randint(100, 9000), "hidden": rng.randint(100, 9000)}
        return {"num_ranks": num_ranks, "batch": batch, **sizes, "vocabulary": rng.randint(10_000, 200_000)}

    return [case(1, 2), case(2, rng.randint(2, 5)), case(rng.randint(3, 7), 1), case(64, rng.randint(2, 5))]


CHECK = Check(
    exercise="week05.bill",
    points=1,
    names=("tensor_parallel_bill",),
    public=(LLAMA, {"num_ranks": 2, "batch": 4, "sequence": 1024, "hidden": 768, "vocabulary": 50257}),
    draw=_draw,
    make=formula_task("tensor_parallel_bill", SIZES, expected),
    judge=judge_numbers(NAMES, unit="bytes"),
    program="without_ranks",
    masked=COSTS_MASKED,
    hints=(
        "How many numbers are in one activation, how many bytes is each, and how many all-reduces are in a layer?",
        "In a ring all-reduce of S bytes each rank sends 2(t-1)/t of S; in a ring all-gather, (t-1)/t of the whole.",
        "[4 * ring * 2 * b * s * h, ring * 4 * 3 * b * s, ring / 2 * 2 * b * s * V], with ring = 2 * (t - 1) / t.",
    ),
)
