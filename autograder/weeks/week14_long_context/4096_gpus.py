"""The interview: 256K tokens of a 405B model on 4,096 GPUs; five numbers that decide how."""

from __future__ import annotations

from dataclasses import replace

from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.models.flops import attention_core_flops, layer_matmul_flops
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.traffic import ring_all_gather_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

GPUS, TP, PP, SEQUENCE = 4096, 8, 16, 262_144
MODEL = replace(ZOO["llama3-405b"], sequence=SEQUENCE)
BF16, ROUNDED = 2, 2e-3
NAMES = (
    "the number of tokens per rank, if all GPUs not used for tp and pp are cp",
    "the bytes of keys and values that a rank sends per layer in a forward ring",
    "the largest cp for which Ulysses can split the heads of a tensor-parallel rank",
    "the smallest number of tokens per rank that hides a ring step's messages over the network (causal, zig-zag)",
    "the fraction of a layer's forward FLOPs that causal attention's core takes",
)


def expected(case: Case) -> list[float]:
    """The numbers of NAMES: tokens, bytes, ranks, tokens, a fraction."""
    cp, h100 = GPUS // TP // PP, ACCELERATORS["h100"]
    head = MODEL.hidden // MODEL.heads
    kv = BF16 * 2 * SEQUENCE * MODEL.kv_heads // TP * head
    hidden_from = 2 * MODEL.kv_heads / MODEL.heads * h100.bf16_flops / h100.network
    core = attention_core_flops(MODEL, causal=True)
    share = core / (core + layer_matmul_flops(MODEL))
    return [SEQUENCE / cp, ring_all_gather_bytes(cp, kv), MODEL.heads // TP, hidden_from, share]


CHECK = Check(
    exercise="week14.4096-gpus",
    points=1,
    names=("on_4096_gpus",),
    public=({},),
    draw=lambda rng: [{}],
    make=formula_task("on_4096_gpus", (), expected),
    judge=judge_numbers(NAMES, ROUNDED),
    program="without_ranks",
    masked=("shardlab.costs",),
    hints=(
        "cp = 4096 / 8 / 16. Tensor parallelism splits the 128 heads and 8 key heads before cp does.",
        "Ring: (cp - 1) · 2 · 2 · (s/cp) · width of a rank's key heads. A step computes 2(s/c)²h FLOPs (half of 4, "
        "causal) and sends 4(s/c)h_kv bytes; divide both by tp.",
        "s/c ≥ 2 · (h_kv/h) · F/B. A layer's matrices have 2h² + 2·h·h_kv + 3·h·53,248 weights, at 2 FLOPs each; the "
        "causal core costs 2·s·h.",
    ),
)
