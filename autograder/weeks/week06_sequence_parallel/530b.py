"""Six numbers of the 530B model: bytes kept, savings and cost of recomputation, and a row of MT-NLG's own table."""

from __future__ import annotations

from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.models.flops import attention_core_flops, layer_matmul_flops
from shardlab.costs.models.zoo import ZOO

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

MODEL, TENSOR = ZOO["mt-nlg-530b"], 8
SECONDS = {2240: 60.1, 2800: 50.2, 3360: 44.4}  # for 1,920 sequences, by GPUs: arXiv 2201.11990, section 2.4
PRINTED = {2240: 126, 2800: 121, 3360: 113}  # teraFLOP/s per GPU, in the same section
NAMES = (
    "the bytes of a layer with only tensor parallelism",
    "the bytes with sequence parallelism and selective recomputation",
    "the share of a layer's bytes that selective recomputation saves, with sequence parallelism",
    "the share of FLOPs that selective recomputation adds to a layer's forward and backward",
    "the share that full recomputation adds",
    "the teraFLOP/s of each of 2,240 GPUs at 60.1 s per step, with every forward computed twice",
)
ROUNDED = 0.01  # relative: answers may be rounded


def expected(case: Case) -> list[float]:
    """The six numbers, in the order of NAMES."""
    sizes = (MODEL.sequence, 1, MODEL.hidden, MODEL.heads, TENSOR)
    alone = gpt_layer_activation_bytes(*sizes)
    split = gpt_layer_activation_bytes(*sizes, sequence_parallel=True)
    both = gpt_layer_activation_bytes(*sizes, sequence_parallel=True, recompute="selective")
    core = attention_core_flops(MODEL)
    forward = layer_matmul_flops(MODEL) + core
    return [alone, both, 1 - both / split, core / (3 * forward), 1 / 3, teraflops_per_gpu(2240, forwards=4)]


def teraflops_per_gpu(num_gpus: int, forwards: int) -> float:
    """From the time of a step: the layers' FLOPs, in forwards; a backward is two, full recomputation one more."""
    forward = layer_matmul_flops(MODEL) + attention_core_flops(MODEL)
    return forwards * forward * MODEL.layers * MODEL.sequence * 1920 / (SECONDS[num_gpus] * num_gpus) / 1e12


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
        "The core again adds 4bs²h to 3 · (24bsh² + 4bs²h). Full repeats the whole forward: one unit on top of three. "
        "The last number: 4 · (24sh² + 4s²h) · 105 layers · 1,920 sequences / (60.1 s · 2,240 GPUs) / 1e12.",
    ),
)
