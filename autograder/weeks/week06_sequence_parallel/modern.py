"""Bytes that one layer as in Llama keeps, by part: RMSNorm, grouped keys, attention in one kernel, SwiGLU.

The week's test measures them on real layers (`shardlab.model.ModernBlock`), to the byte.
"""

from __future__ import annotations

from random import Random

from shardlab.costs.layout import Layout
from shardlab.costs.memory.activations import modern_layer_tensors
from shardlab.costs.models.model import Transformer

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

SIZES = ("s", "b", "h", "a", "k", "d", "f")
PARTS: dict[str, tuple[str, ...]] = {  # each part with its tensors in the cost model
    "the two norms keep": ("layer's input", "norm 1: mean and scale", "second norm's input", "norm 2: mean and scale"),
    "the matrices that read the norms' outputs keep": ("attention's input", "MLP's input"),
    "attention keeps, with its output": ("queries", "keys", "values", "sums of exponentials", "projection's input"),
    "the MLP keeps between its matrices": ("passing", "gate", "gate after SiLU", "their product"),
}
LLAMA = {"s": 8192, "b": 1, "h": 4096, "a": 32, "k": 8, "d": 128, "f": 14336}
SMALL = {"s": 16, "b": 3, "h": 32, "a": 4, "k": 2, "d": 16, "f": 88}


def model_of(case: Case) -> Transformer:
    """The sizes as the cost model and `ModernBlock` take them, one layer."""
    heads = {"heads": case["a"], "kv_heads": case["k"], "head_dim": case["d"]}
    return Transformer("a layer", layers=1, hidden=case["h"], ffn=case["f"], vocab=1, sequence=case["s"], **heads)


def expected(case: Case) -> list[float]:
    """Bytes by part, in the order of PARTS."""
    kept = {one.name: one.num_bytes for one in modern_layer_tensors(model_of(case), Layout(microbatch=case["b"]))}
    return [sum(kept[name] for name in names) for names in PARTS.values()]


def _draw(rng: Random) -> list[Case]:
    """Grouped keys, one key head for all, and one for each; heads that together are wider than the hidden size."""

    def case(k: int, sharing: int, **sizes: int) -> Case:
        width, hidden = rng.choice([64, 96, 128]), 64 * rng.randint(5, 40)
        drawn = {"s": rng.randint(100, 3000), "b": rng.randint(2, 5), "h": hidden, "a": k * sharing, "k": k}
        return drawn | {"d": width, "f": 8 * rng.randint(200, 900)} | sizes

    return [
        case(rng.randint(2, 8), rng.randint(2, 8)),
        case(1, rng.randint(4, 16)),
        case(rng.randint(4, 9), 1),
        case(4, 4, h=512, d=128, b=1),
    ]


CHECK = Check(
    exercise="week06.modern",
    points=2,
    names=("modern_layer_bytes",),
    public=(LLAMA, SMALL),
    draw=_draw,
    make=formula_task("modern_layer_bytes", SIZES, expected),
    judge=judge_numbers([f"what {part}" for part in PARTS], relative=1e-9, unit="bytes"),
    program="without_ranks",
    masked=("shardlab.costs",),
    hints=(
        "Go through the layer operator by operator: which tensors does its backward need? A tensor counts once, even "
        "if several operators save it.",
        "A product of two tensors needs both; SiLU needs its input; the kernel needs queries, keys, values, its output "
        "and one float32 per query head and position; a norm needs its input and one float32 per position.",
        "Per position: norms 2 · (2h + 4); their outputs 2 · 2h; attention 2ad for queries and for the output, 2kd for "
        "keys and for values, 4a; the MLP 4 · 2f. Times s · b.",
    ),
)
