"""Parameters of a mixture-of-experts model: all of them, and those that a token uses."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

SIZES = ("layers", "dense_layers", "hidden", "attention", "ffn", "expert_ffn", "experts", "k", "shared", "vocab")
MATRICES = 3  # of a gated MLP
DEEPSEEK_V3: Case = dict(zip(SIZES, (61, 3, 7168, 187_121_664, 18_432, 2048, 256, 8, 1, 129_280), strict=True))
MIXTRAL: Case = dict(zip(SIZES, (32, 0, 4096, 41_951_232, 0, 14_336, 8, 2, 0, 32_000), strict=True))


def expected(case: Case) -> tuple[float, float]:
    """Returns (all parameters, parameters that a token uses)."""
    h, moe_layers = case["hidden"], case["layers"] - case["dense_layers"]
    around = 2 * case["vocab"] * h + case["layers"] * case["attention"]
    around += case["dense_layers"] * MATRICES * h * case["ffn"] + moe_layers * h * case["experts"]
    each = MATRICES * h * case["expert_ffn"]
    total, active = (around + moe_layers * (n + case["shared"]) * each for n in (case["experts"], case["k"]))
    return total, active


def _draw(rng: Random) -> list[Case]:
    """Models with experts in every layer and in some; with shared experts and without."""

    def case(dense_layers: int, shared: int, ffn: int) -> Case:
        h, experts = 64 * rng.randint(8, 64), rng.choice([16, 64, 96])
        sizes = (rng.randint(8, 60), dense_layers, h, 4 * h * h + 2 * h, ffn, 64 * rng.randint(4, 40), experts)
        return dict(zip(SIZES, (*sizes, rng.randint(2, 8), shared, 1000 * rng.randint(30, 150)), strict=True))

    return [case(0, 0, 0), case(rng.randint(1, 3), rng.randint(1, 2), 4096), case(1, 0, 2048), case(0, 2, 0)]


CHECK = Check(
    exercise="week11.active",
    points=1,
    names=("parameters",),
    public=(MIXTRAL, DEEPSEEK_V3),
    draw=_draw,
    make=formula_task("parameters", SIZES, expected),
    judge=judge_numbers(("the number of all parameters", "the number of parameters that a token uses")),
    program="without_ranks",
    masked=("shardlab.costs", "shardlab.model"),
    hints=(
        "Which parts does every token use, whatever the router chooses? Only the routed experts differ.",
        "Embedding and output have 2Vh; every layer has attention; dense layers have 3·h·ffn; the others have a router "
        "of h·E, and 3·h·f for each expert, including shared ones.",
        "Write it as a function of the number of routed experts, and call it twice: with E and with ____.",
    ),
)
