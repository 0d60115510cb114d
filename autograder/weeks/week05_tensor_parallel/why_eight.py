"""Seconds of computation and communication in a layer, inside a node and across nodes."""

from __future__ import annotations

from random import Random

from shardlab.costs.links import Links, all_reduce_seconds, group_of
from shardlab.costs.models.flops import attention_core_flops, layer_matmul_flops
from shardlab.costs.models.zoo import gpt

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.weeks.week05_tensor_parallel._shared import COSTS_MASKED

SIZES = ("num_ranks", "sequence", "hidden", "flops", "inside", "between", "per_node")
H100 = {"flops": 495e12, "inside": 337.5e9, "between": 37.5e9, "per_node": 8}  # from costs.links_of
GB200 = {"flops": 1250e12, "inside": 603e9, "between": 37.5e9, "per_node": 72}
GPT3 = {"sequence": 2048, "hidden": 12288}
BF16, ALL_REDUCES, PASSES = 2, 4, 3


def expected(case: Case) -> tuple[float, float]:
    """(seconds of computation, seconds of communication) of one layer, forward and backward, for one sequence."""
    model = gpt("a model", 1, case["hidden"], 1, sequence=case["sequence"])
    per_token = PASSES * (layer_matmul_flops(model) + attention_core_flops(model))
    links = Links(case["inside"], case["between"], case["per_node"])
    one = all_reduce_seconds(links, group_of(links, case["num_ranks"]), BF16 * case["sequence"] * case["hidden"])
    return per_token * case["sequence"] / case["num_ranks"] / case["flops"], ALL_REDUCES * one


def _draw(rng: Random) -> list[Case]:
    """One rank, a full node, two nodes, a node of 72, many small nodes; all cards slower or faster than NVLink."""

    def case(num_ranks: int, per_node: int, cards: float) -> Case:
        """cards: bandwidth of all cards of a node, as a share of NVLink."""
        inside = rng.randint(100, 900) * 1e9
        links = {"inside": inside, "between": round(cards * inside / per_node, -6)}
        sizes = {"sequence": rng.randint(512, 8192), "hidden": 128 * rng.randint(8, 128)}
        return {"num_ranks": num_ranks, **sizes, "flops": rng.randint(100, 2000) * 1e12, **links, "per_node": per_node}

    def less() -> float:
        return rng.uniform(0.3, 0.9)

    inside = [case(1, 8, less()), case(8, 8, less()), case(rng.randint(20, 70), 72, less())]
    return [*inside, case(16, 8, less()), case(64, 4, less()), case(144, 72, rng.uniform(1.5, 4))]


CHECK = Check(
    exercise="week05.why-eight",
    points=1,
    names=("layer_seconds",),
    public=(
        {"num_ranks": 8, **GPT3, **H100},
        {"num_ranks": 16, **GPT3, **H100},
        {"num_ranks": 144, **GPT3, **GB200},
    ),
    draw=_draw,
    make=formula_task("layer_seconds", SIZES, expected),
    judge=judge_numbers(("the seconds of computation", "the seconds of communication")),
    program="without_ranks",
    masked=COSTS_MASKED,
    hints=(
        "Which of the two gets smaller with more ranks, and which does not? Do your seconds include the backward?",
        "A layer's forward takes 24h² + 4sh operations per token, its backward twice as many; ranks share them. Four "
        "all-reduces of an activation of 2sh bytes go over NVLink, or through all network cards of a node together.",
        "3 * (24 * h**2 + 4 * s * h) * s / t / flops, and 4 * 2 * (t - 1) / t * 2 * s * h / link, with link = inside "
        "if all ranks are on one node, otherwise the smaller of inside and per_node * between.",
    ),
)
