"""Shared by this week's checks: models and clusters as plain data, all layouts for them, and the costs of a layout.

A layout is (tp, pp, dp, b): sizes of tensor, pipeline and data parallelism, and sequences per microbatch. A model is
{"parameters", "layers", "hidden", "heads", "sequence"}. A GPU is {"flops", "nvlink", "network", "per_server"}: the
FLOP/s and bytes per second that it and its network card achieve.
"""

from __future__ import annotations

from random import Random
from typing import Any

from shardlab.costs.links import Links, all_reduce_seconds, group_of, ring_seconds
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.memory.states import zero_state_bytes
from shardlab.costs.models.model import divisors
from shardlab.costs.traffic import ring_all_gather_bytes

Layout = tuple[int, int, int, int]
MASKED = ("shardlab.costs",)  # the exercises ask for formulas that it contains
GPT = {"parameters": 175e9, "layers": 96, "hidden": 12288, "heads": 96, "sequence": 2048}
H100 = {"flops": 6e14, "nvlink": 3.3e11, "network": 4.5e10, "per_server": 8}


def drawn_model(rng: Random, layers: int, heads: int) -> dict[str, Any]:
    hidden = heads * rng.choice([64, 128])
    return {
        "parameters": 12.0 * layers * hidden**2,
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "sequence": rng.choice([1024, 2048, 4096]),
    }


def drawn_gpu(rng: Random) -> dict[str, Any]:
    return {
        "flops": rng.randint(1, 20) * 1e14,
        "nvlink": rng.randint(1, 9) * 1e11,
        "network": rng.randint(1, 9) * 1e10,
        "per_server": 8,
    }


def all_layouts(
    num_gpus: int, per_server: int, num_layers: int, num_heads: int, sequences: int, microbatches: list[int]
) -> list[Layout]:
    """tp divides a server and the heads, pp the layers, and dp * b the batch; tp * pp * dp is the number of GPUs."""
    return [
        (tp, pp, num_gpus // (tp * pp), b)
        for tp in divisors(per_server)
        for pp in divisors(num_layers)
        for b in microbatches
        if num_heads % tp == 0 and num_gpus % (tp * pp) == 0 and sequences % (num_gpus // (tp * pp) * b) == 0
    ]


def rank_bytes(model: dict[str, Any], layout: Layout, sequences: int) -> float:
    """States with fp32 gradients and ZeRO-1; activations of 1F1B's first stage, sequence parallel, without scores."""
    tp, pp, dp, b = layout
    states = zero_state_bytes(model["parameters"] / (tp * pp), dp, 1, gradient_bytes=4).total
    in_flight = min(pp, sequences // (dp * b)) * model["layers"] / pp
    layer = gpt_layer_activation_bytes(
        model["sequence"], b, model["hidden"], model["heads"], tp, sequence_parallel=True, recompute="selective"
    )
    return states + in_flight * layer


def step_seconds(model: dict[str, Any], layout: Layout, sequences: int, gpu: dict[str, Any]) -> float:
    """(m + p - 1) slots of work and four all-reduces per layer; fp32 gradients and bf16 weights at the end.

    Links have no latency.
    """
    tp, pp, dp, b = layout
    share = model["parameters"] / (tp * pp)
    work = 6 * share * b * model["sequence"] / gpu["flops"]
    activation = 2 * b * model["sequence"] * model["hidden"]
    links = Links(gpu["nvlink"], gpu["network"], gpu["per_server"])
    tensor = 4 * model["layers"] / pp * all_reduce_seconds(links, group_of(links, tp), activation)
    data = ring_seconds(links, group_of(links, dp, tp), ring_all_gather_bytes(dp, (4 + 2) * share))
    return (sequences // (dp * b) + pp - 1) * (work + tensor) + data


def as_layouts(value: Any) -> list[Layout] | None:
    """The returned value as a list of layouts, or None if it is not a list of tuples of four whole numbers."""
    if not isinstance(value, list | tuple):
        return None
    for one in value:
        if not isinstance(one, list | tuple) or len(one) != 4 or any(type(size) is not int for size in one):
            return None
    return [(one[0], one[1], one[2], one[3]) for one in value]
