"""Five axes at once: how many ranks sum a gradient, and the bytes that a rank sends on each axis."""

from __future__ import annotations

from random import Random

from shardlab.costs.axis_traffic import cp_layer_bytes, ep_layer_bytes, gradient_bytes, tp_layer_bytes
from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer
from shardlab.costs.traffic import ring_all_reduce_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import FORMULAS, formula_task, judge_numbers

AXES = ("tp", "cp", "ep", "dp", "pp")
SIZES = (*AXES, "layers", "hidden", "kv", "tokens", "k", "dense", "experts")
NAMES = (
    "the number of ranks that sum a dense weight's gradient",
    "the number of ranks that sum an expert's gradient",
    "the bytes that a rank sends on tp in a forward",
    "the bytes it sends on cp in a forward",
    "the bytes it sends on ep in a forward",
    "the bytes it sends for gradients, once per step",
)
MIXTRAL = {"tp": 2, "cp": 2, "ep": 4, "dp": 8, "pp": 4} | {
    "layers": 32,
    "hidden": 4096,
    "kv": 1024,
    "tokens": 4096,
    "k": 2,
    "dense": 1_605_000_000,
    "experts": 45_097_000_000,
}
ONE_RANK = MIXTRAL | dict.fromkeys(AXES, 1)


def expected(case: Case) -> list[float]:
    """The six numbers of NAMES: ranks, ranks, bytes, bytes, bytes, bytes."""
    tp, cp, ep, dp, pp = (case[axis] for axis in AXES)
    copies, experts_copies = dp * cp, dp * cp // ep
    layers, rows = case["layers"] / pp, 2 * case["tokens"] * case["hidden"]
    share = 2 / (tp * pp)
    return [
        copies,
        experts_copies,
        layers * 2 * ring_all_reduce_bytes(tp, rows),
        layers * (cp - 1) * 2 * 2 * case["tokens"] * case["kv"] / tp,
        layers * 2 * case["k"] * rows / tp * (ep - 1) / ep,
        ring_all_reduce_bytes(copies, share * case["dense"])
        + ring_all_reduce_bytes(experts_copies, share * case["experts"] / ep),
    ]


def by_the_package(model: Transformer, layout: Layout) -> list[float]:
    """The four byte counts by `costs`, for a model with equal stages; the week's test compares with them."""
    layers = model.layers / layout.pp
    each = (tp_layer_bytes, cp_layer_bytes, ep_layer_bytes)
    return [*(of(model, layout) * layers for of in each), gradient_bytes(model, layout, 1)]


def _draw(rng: Random) -> list[Case]:
    """Each axis with one, two and more ranks; experts with one copy and with several."""

    def case(tp: int, cp: int, ep: int, dp: int, pp: int) -> Case:
        sizes = {"layers": pp * rng.randint(2, 9), "hidden": 64 * rng.randint(4, 99), "kv": 64 * rng.randint(1, 16)}
        sizes |= {"tokens": 128 * rng.randint(2, 40), "k": rng.randint(1, 8)}
        sizes |= {"dense": rng.randint(10**8, 10**10), "experts": rng.randint(10**9, 10**11)}
        return dict(zip(AXES, (tp, cp, ep, dp, pp), strict=True)) | sizes

    meshes = [(1, 1, 4, 4, 2), (4, 1, 1, 2, 1), (1, 3, 3, 2, 1), (2, 4, 2, 1, 4), (3, 2, 6, 6, 2)]
    return [case(*mesh) for mesh in meshes]


CHECK = Check(
    exercise="week15.bill",
    points=1,
    optional=True,
    names=("five_axis_bill",),
    public=(MIXTRAL, ONE_RANK),
    draw=_draw,
    make=formula_task("five_axis_bill", SIZES, expected),
    judge=judge_numbers(NAMES),
    program="without_ranks",
    masked=(*FORMULAS, "shardlab.costs", "shardlab.hybrid", "shardlab.mesh"),
    hints=(
        "Which ranks have different tokens but the same weight? Those along dp and cp. Among these, ep ranks hold "
        "different experts.",
        "A stage has layers/pp. tp: 2 all-reduces of tokens x hidden x 2 bytes per layer. cp: cp - 1 times own keys "
        "and values, kv/tp wide. ep: 2 all-to-alls of tokens/tp x k rows. Gradients: an all-reduce of a rank's share.",
        "An all-reduce sends 2(N-1)/N of its payload: dense/(tp pp) numbers over dp cp ranks, experts/(tp pp ep) over "
        "dp cp/ep ranks.",
    ),
)
