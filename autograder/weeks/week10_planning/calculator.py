"""Six lines of a calculator, five of them with an error that public calculators have had; one part per line."""

from __future__ import annotations

from random import Random
from typing import Any

from shardlab.costs.clock.step import bubble_share
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.memory.states import zero_state_bytes
from shardlab.costs.models.flops import attention_core_flops
from shardlab.costs.models.model import Transformer, num_parameters
from shardlab.costs.traffic import ring_all_reduce_bytes

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week10_planning._clusters import MASKED

WHY = {
    "parameters": "Count each kind of matrix and norm, and check the width of keys and values.",
    "state_bytes": "Check the dtype in which gradients are summed, and which states ZeRO-1 shards.",
    "activation_bytes": "Which tensors does a fused attention kernel not keep?",
    "all_reduce_bytes": "Follow one byte around the ring: how often is it sent, and by how many of the ranks?",
    "attention_flops": "Which part does a kernel with a causal mask skip?",
    "bubble": "The original line, (P-1)/(M+P-1), was right.",
}
PUBLIC = {
    "layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn": 28672, "vocab": 128256, "sequence": 8192,
    "microbatch": 1, "tp": 8, "pp": 4, "dp": 16, "microbatches": 32, "parameters_on_rank": 2_200_000_000,
}  # fmt: skip


def calculated(sizes: dict[str, Any]) -> dict[str, float]:
    """The correct value of each line, as the exercise defines it."""
    names = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "sequence")
    model = Transformer("drawn", **{name: sizes[name] for name in names}, gated=True)
    s, b, h, tp = sizes["sequence"], sizes["microbatch"], sizes["hidden"], sizes["tp"]
    return {
        "parameters": num_parameters(model),
        "state_bytes": zero_state_bytes(sizes["parameters_on_rank"], sizes["dp"], 1, gradient_bytes=4).total,
        "activation_bytes": gpt_layer_activation_bytes(
            s, b, h, sizes["heads"], tp, sequence_parallel=True, recompute="selective"
        ),
        "all_reduce_bytes": ring_all_reduce_bytes(tp, 2 * s * b * h),
        "attention_flops": model.layers * attention_core_flops(model, causal=True),
        "bubble": bubble_share(sizes["pp"], sizes["microbatches"]),
    }


def _make(case: Case, rng: Random) -> Task:
    expected = calculated(case["sizes"])[case["part"]]
    return Task(call="calculate", ranks=1, inputs=[[[case["sizes"]]]], expected=[expected], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, name = numbers_of(reply), case["part"]
    if not isinstance(received, dict) or name not in received:
        return f"calculate must return a dict with {', '.join(WHY)}."
    diagonal = 1.5 / case["sizes"]["sequence"]  # a token may attend to itself: accept (s + 1) / 2 as well as s / 2
    if close(received[name], task.expected[0], diagonal if name == "attention_flops" else 1e-6):
        return None
    return f"{name} is {received[name]!r}, which is not right. {WHY[name]} Sizes: {case['sizes']}."


def _draw(rng: Random) -> list[Case]:
    drawn = []
    for kv_heads, tp in ((1, 2), (4, 8), (32, 1)):
        sizes = {
            "layers": rng.randint(2, 99),
            "hidden": 32 * rng.choice([64, 96, 128]),
            "heads": 32,
            "kv_heads": kv_heads,
            "ffn": rng.randint(100, 30000),
            "vocab": rng.randint(1000, 200_000),
            "sequence": rng.choice([512, 2048, 4096, 32768]),
            "microbatch": rng.randint(1, 4),
            "tp": tp,
            "pp": rng.randint(1, 16),
            "dp": rng.randint(1, 64),
            "microbatches": rng.randint(1, 64),
            "parameters_on_rank": rng.randint(10**8, 10**10),
        }
        drawn.append(sizes)
    return [{"sizes": sizes, "part": part} for part in WHY for sizes in drawn]


CHECK = Check(
    exercise="week10.calculator",
    points=3,
    names=("calculate",),
    public=tuple({"sizes": PUBLIC, "part": part} for part in WHY),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    parts={part: 0.1 if part == "bubble" else 0.18 for part in WHY},
    hints=(
        "Test one line at a time, with sizes for which you know the answer: kv_heads = heads, tp = 1, one layer.",
        "Keys and values are kv_heads/heads as wide; the output layer is a second matrix of vocab * hidden.",
        "fp32 gradients: 6 + 12/dp. Flash attention: no 5as/h. All-reduce: 2(tp-1)/tp. A causal mask: half the FLOPs.",
    ),
)
