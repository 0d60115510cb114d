"""Five numbers for a layer of the 530B model: bytes kept, and the savings and cost of selective recomputation."""

from __future__ import annotations

from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.models.flops import attention_core_flops, layer_matmul_flops
from shardlab.costs.models.zoo import ZOO

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

MODEL, TENSOR = ZOO["mt-nlg-530b"], 8
NAMES = (
    "the bytes of a layer with only tensor parallelism",
    "the bytes with sequence parallelism and selective recomputation",
    "the share of a layer's bytes that selective recomputation saves, with sequence parallelism",
    "the share of FLOPs that selective recomputation adds to a layer's forward and backward",
    "the share that full recomputation adds",
)
ROUNDED = 0.01  # relative: answers may be rounded


def expected(case: Case) -> list[float]:
    """The five numbers, in the order of NAMES."""
    sizes = (MODEL.sequence, 1, MODEL.hidden, MODEL.heads, TENSOR)
    alone = gpt_layer_activation_bytes(*sizes)
    split = gpt_layer_activation_bytes(*sizes, sequence_parallel=True)
    both = gpt_layer_activation_bytes(*sizes, sequence_parallel=True, recompute="selective")
    core = attention_core_flops(MODEL)
    forward = layer_matmul_flops(MODEL) + core
    return [alone, both, 1 - both / split, core / (3 * forward), 1 / 3]


CHECK = Check(
    exercise="week06.530b",
    points=1,
    names=("layer_of_530b",),
    public=({},),
    draw=lambda rng: [{}],
    make=formula_task("layer_of_530b", (), expected),
    judge=judge_numbers(NAMES, ROUNDED),
    program="without_ranks",
    masked=("shardlab.costs",),
    hints=(
        "s = 2048, b = 1, h = 20480, a = 128, t = 8: your activation_bytes gives the first three numbers.",
        "Forward FLOPs of a layer: 24bsh² in the matrices and 4bs²h between them. A backward costs two forwards.",
        "The core again adds 4bs²h to 3 · (24bsh² + 4bs²h). Full repeats the whole forward: one unit on top of three.",
    ),
)
