"""The bytes that each axis sends, in bf16: five numbers for one rank of a middle stage."""

from __future__ import annotations

from random import Random

from shardlab.costs.axis_traffic import activation_bytes_of, pp_boundary_bytes, tp_layer_bytes
from shardlab.costs.layout import Layout
from shardlab.costs.models.zoo import gpt
from shardlab.costs.traffic import ring_all_reduce_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

NAMES = (
    "the payload of a tensor-parallel all-reduce",
    "the amount that a rank sends in one all-reduce",
    "the amount that it sends on tp in the forward of a microbatch",
    "the amount that it sends to the next stage per microbatch",
    "the amount that it sends on dp per step",
)
SIZES = ("layers", "hidden", "sequence", "microbatch", "parameters", "tp", "pp", "dp")
GPT3 = {
    "layers": 96,
    "hidden": 12288,
    "sequence": 2048,
    "microbatch": 1,
    "parameters": 5_436_297_216,
    "tp": 8,
    "pp": 4,
    "dp": 32,
}
SMALL = {"layers": 12, "hidden": 768, "sequence": 1024, "microbatch": 4, "parameters": 124_000_000} | {
    "tp": 1,
    "pp": 1,
    "dp": 4,
}


def expected(case: Case) -> list[float]:
    """The five numbers, in the order of NAMES, in bytes."""
    model = gpt("a model", case["layers"], case["hidden"], 1, sequence=case["sequence"])
    layout = Layout(tp=case["tp"], pp=case["pp"], dp=case["dp"], microbatch=case["microbatch"])
    payload = activation_bytes_of(model, layout)
    return [
        payload,
        ring_all_reduce_bytes(case["tp"], payload),
        tp_layer_bytes(model, layout) * case["layers"] / case["pp"],
        pp_boundary_bytes(model, layout),
        ring_all_reduce_bytes(case["dp"], 2 * case["parameters"]),
    ]


def _draw(rng: Random) -> list[Case]:
    """Each axis with one rank, two, and more; microbatches of several sequences."""

    def case(tp: int, pp: int, dp: int) -> Case:
        sizes = {"layers": pp * rng.randint(2, 9), "hidden": 64 * rng.randint(2, 99), "sequence": rng.randint(64, 4096)}
        sizes |= {"microbatch": rng.randint(2, 4), "parameters": rng.randint(10**6, 10**10)}
        return sizes | {"tp": tp, "pp": pp, "dp": dp}

    meshes = [(1, 4, 2), (4, 1, 8), (8, 4, 1), (2, 2, 2), (rng.randint(3, 7), rng.randint(3, 9), rng.randint(3, 99))]
    return [case(*mesh) for mesh in meshes]


CHECK = Check(
    exercise="week09.axis-bytes",
    points=2,
    names=("axis_bytes",),
    public=(GPT3, SMALL),
    draw=_draw,
    make=formula_task("axis_bytes", SIZES, expected),
    judge=judge_numbers(NAMES, unit="bytes"),
    program="without_ranks",
    masked=("shardlab.collectives", "shardlab.costs", "shardlab.hybrid"),
    hints=(
        "An activation has microbatch x sequence x hidden numbers of 2 bytes; every tensor-parallel rank has all of "
        "it.",
        "A ring all-reduce sends 2(N-1)/N of its payload; the forward of a layer does 2, and a stage has L/p layers.",
        "An axis of one rank sends nothing; a gradient has 2 bytes per parameter and is all-reduced over dp.",
    ),
)
