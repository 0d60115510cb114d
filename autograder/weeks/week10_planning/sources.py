"""Numbers that guides and posts print, recomputed: one part per source, on their sizes and on drawn ones.

The sources: Accelerate's Megatron-LM guide (a log of GPT-2 large with tp 2 and pp 2), MT-NLG 530B (arXiv 2201.11990,
section 2.4: 60.1, 50.2 and 44.4 s, or 126, 121 and 113 TFLOP/s), Alpa on Ray at 175B (Anyscale's post: 179 TFLOP/s of
an A100 count as 57.5%), ColossalAI's pages on 1D and 3D tensor parallelism, Megatron Bridge's parallelisms guide, and
the table in Transformers' parallelism guide, whose rows for a large layer name ZeRO and tensor parallelism.
"""

from __future__ import annotations

from random import Random
from typing import Any

from shardlab.costs.models.flops import hardware_flops_per_token
from shardlab.costs.models.zoo import gpt

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week10_planning._clusters import MASKED

Sizes = dict[str, Any]
PARTS = ("accelerate", "transformers", "mt-nlg", "alpa-ray", "colossalai", "megatron-bridge")
GPT2_LARGE = {"layers": 36, "hidden": 1280, "positions": 1024, "vocab": 50432, "tp": 2, "pp": 2}
MT_NLG = {"layers": 105, "hidden": 20480, "sequence": 2048, "vocab": 51200, "sequences": 1920}
PUBLIC: dict[str, list[Sizes]] = {
    "accelerate": [GPT2_LARGE],
    "transformers": [{"parameters": 4_000_000_000, "gpus": 8}],
    "mt-nlg": [MT_NLG | {"gpus": gpus, "seconds": took} for gpus, took in ((2240, 60.1), (2800, 50.2), (3360, 44.4))],
    "alpa-ray": [{"hardware": 179e12, "peak": 312e12}],
    "colossalai": [{"q": 2}, {"q": 4}],
    "megatron-bridge": [{"world": 32, "tp": 2, "pp": 4, "cp": 2}],
}


def stage_parameters(n: Sizes) -> list[int]:
    """Parameters on a tensor-parallel rank of the first and of the last stage: GPT-2 with biases, embedding on both."""
    h, tp = n["hidden"], n["tp"]
    layer = 12 * h * h // tp + (3 + 4) * h // tp + (1 + 1 + 4) * h  # biases of split columns are split; 2 norms
    layers, table = n["layers"] // n["pp"] * layer, n["vocab"] // tp * h
    return [layers + table + n["positions"] * h, layers + table + 2 * h]


def expected(part: str, n: Sizes) -> list[float]:
    """The numbers of one part."""
    if part == "accelerate":
        return [float(one) for one in stage_parameters(n)]
    if part == "transformers":
        states = 16.0 * n["parameters"]
        return [states, states / n["gpus"] + 2 * n["parameters"], states / n["gpus"]]
    if part == "mt-nlg":
        model = gpt("drawn", n["layers"], n["hidden"], 1, vocab=n["vocab"], sequence=n["sequence"])
        flops = hardware_flops_per_token(model, "full") * n["sequences"] * n["sequence"]
        return [flops / (n["seconds"] * n["gpus"])]
    if part == "alpa-ray":
        return [n["hardware"] / n["peak"], 0.75 * n["hardware"] / n["peak"]]
    if part == "colossalai":
        ranks = n["q"] ** 3
        return [2 * (ranks - 1) / ranks, 6 * (n["q"] - 1) / ranks]
    return [float(n["world"] // (n["tp"] * n["pp"] * n["cp"]))]


def _make(case: Case, rng: Random) -> Task:
    values = expected(case["part"], case["sizes"])
    return Task(call="reproduce", ranks=1, inputs=[[[case["part"], case["sizes"]]]], expected=[values], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, wanted = numbers_of(reply), task.expected[0]
    if not isinstance(received, list | tuple) or len(received) != len(wanted):
        return f"For {case['part']!r}, return a list of {len(wanted)} numbers."
    exact = 1e-12 if case["part"] == "accelerate" else 1e-6
    for place, (one, right) in enumerate(zip(received, wanted, strict=True)):
        if not close(one, right, exact):
            return f"{case['part']}: {one!r} is not right (number {place + 1}). Sizes: {case['sizes']}."
    return None


def _draw(rng: Random) -> list[Case]:
    tp, pp = rng.choice([1, 2, 4]), rng.choice([2, 3])
    drawn: dict[str, Sizes] = {
        "accelerate": {
            "layers": pp * rng.randint(2, 9), "hidden": 64 * rng.randint(2, 20), "positions": rng.choice([512, 1024]),
            "vocab": 128 * tp * rng.randint(90, 400), "tp": tp, "pp": pp,
        },
        "transformers": {"parameters": rng.randint(10**8, 10**10), "gpus": rng.randint(3, 64)},
        "mt-nlg": {
            "layers": rng.randint(12, 96), "hidden": 512 * rng.randint(4, 24), "sequence": rng.choice([1024, 4096]),
            "vocab": rng.randint(30_000, 99_000), "sequences": rng.randint(100, 2000), "gpus": rng.randint(8, 2000),
            "seconds": rng.randint(3, 90) / 2,
        },
        "alpa-ray": {"hardware": rng.randint(90, 300) * 1e12, "peak": 312e12},
        "colossalai": {"q": rng.randint(3, 9)},
        "megatron-bridge": {"world": 2 * 3 * 8 * 64, "tp": rng.choice([2, 8]), "pp": rng.choice([3, 6]), "cp": 2},
    }  # fmt: skip
    return [{"part": part, "sizes": sizes} for part in PARTS for sizes in (*PUBLIC[part], drawn[part])]


CHECK = Check(
    exercise="week10.sources",
    points=3,
    names=("reproduce",),
    public=tuple({"part": part, "sizes": sizes} for part in PARTS for sizes in PUBLIC[part]),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    optional=True,
    masked=MASKED,
    parts=dict.fromkeys(PARTS, 1 / 6),
    hints=(
        "One source at a time: each is a sixth of the points.",
        "A GPT-2 layer has matrices of 12 h*h numbers, split over tp; biases of 3h and 4h, split; biases of h and h and"
        " two norms of 2h, on every rank. The last stage has the vocabulary matrix again, and a norm.",
        "MT-NLG: 96 * tokens * layers * h*h * (1 + s/6h + V/(16 * layers * h)) FLOPs, over seconds and GPUs.",
    ),
)
