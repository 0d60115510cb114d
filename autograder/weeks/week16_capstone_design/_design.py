"""Shared by this week's checks: the numbers of a design document by the package's formulas, and random sizes.

Sizes are plain dicts, as on the page. Model: parameters, layers, hidden, heads, kv (width of the keys), sequence.
Layout: tp, cp, pp, dp, b sequences in a microbatch, m microbatches, chunks on a stage, recompute. GPU: flops, nvlink
and network (achieved per GPU and card), per_server, peak, memory, dollars per hour, hours between failures of one GPU.
"""

from __future__ import annotations

from random import Random
from typing import Any

from shardlab.costs import failures
from shardlab.costs.context import kv_bytes
from shardlab.costs.links import Links, group_of, neighbor_bandwidth, ring_bandwidth
from shardlab.costs.machines import find_accelerator
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.memory.states import zero_state_bytes
from shardlab.costs.models.flops import utilisation
from shardlab.costs.models.zoo import find_model
from shardlab.costs.planning.planner import usable_bytes
from shardlab.costs.sizes import model_sizes
from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes, ring_reduce_scatter_bytes

Sizes = dict[str, Any]
MASKED = ("shardlab.costs",)  # hidden because it contains the formulas that students write
LLAMA_405B = model_sizes(find_model("llama3-405b"))
SHORT = {"tp": 8, "cp": 1, "pp": 9, "dp": 128, "b": 1, "m": 18, "chunks": 2, "recompute": False}
LONG = {"tp": 8, "cp": 8, "pp": 9, "dp": 16, "b": 1, "m": 16, "chunks": 1, "recompute": False}
H100 = {
    "flops": 6e14, "nvlink": 3.3e11, "network": 4.5e10, "per_server": 8,
    "peak": find_accelerator("h100").bf16_flops, "memory": usable_bytes(find_accelerator("h100")),
    "dollars": 2.0, "hours": 50_000.0,
}  # fmt: skip


def shard(model: Sizes, layout: Sizes) -> float:
    """Parameters per rank."""
    return model["parameters"] / (layout["tp"] * layout["pp"])


def activation_bytes(model: Sizes, layout: Sizes) -> float:
    """Bytes of one microbatch's activation in bf16, not split over tp."""
    return 2.0 * layout["b"] * model["sequence"] / layout["cp"] * model["hidden"]


def gpu_bytes(model: Sizes, layout: Sizes) -> float:
    """States with fp32 gradients and ZeRO-1, plus the first stage's sequence-parallel activations without scores."""
    states = zero_state_bytes(shard(model, layout), layout["dp"] * layout["cp"], 1, gradient_bytes=4).total
    tokens = model["sequence"] / layout["cp"]
    sizes = (1, layout["b"], model["hidden"], model["heads"], layout["tp"])
    layer = tokens * gpt_layer_activation_bytes(*sizes, sequence_parallel=True, recompute="selective")
    pp, chunks = layout["pp"], layout["chunks"]
    held = model["layers"] / pp * min(pp, layout["m"])
    if chunks > 1:
        held = model["layers"] * (1 + (pp - 1) / (pp * chunks))
    if layout["recompute"]:
        return states + held * activation_bytes(model, layout) / layout["tp"] + layer
    return states + held * layer


def sent_bytes(model: Sizes, layout: Sizes) -> dict[str, float]:
    """Bytes that a rank of a middle stage sends per step, by axis."""
    tp, cp, pp, again = layout["tp"], layout["cp"], layout["pp"], layout["recompute"]
    num_layers, tokens = layout["m"] * model["layers"] / pp, layout["b"] * model["sequence"] / cp
    sharers, activation = layout["dp"] * cp, activation_bytes(model, layout)
    reduced = ring_reduce_scatter_bytes(sharers, 4 * shard(model, layout))
    return {
        "tp": num_layers * (6 if again else 4) * ring_all_reduce_bytes(tp, activation),
        "cp": num_layers * (4 if again else 3) * kv_bytes(cp, tokens, model["kv"] / tp),
        "pp": layout["m"] * layout["chunks"] * 2 * activation / tp if pp > 1 else 0.0,
        "dp": reduced + ring_all_gather_bytes(sharers, 2 * shard(model, layout)),
    }


def step_seconds(model: Sizes, layout: Sizes, gpu: Sizes) -> float:
    """m + (pp-1)/chunks sequential slots of work and messages, then gradients and weights; no latency."""
    tp, cp, pp, stage = layout["tp"], layout["cp"], layout["pp"], layout["tp"] * layout["cp"] * layout["dp"]
    work = (8 if layout["recompute"] else 6) * shard(model, layout) * layout["b"] * model["sequence"] / cp
    sent, links = sent_bytes(model, layout), Links(gpu["nvlink"], gpu["network"], gpu["per_server"])
    messages = sent["tp"] / ring_bandwidth(links, group_of(links, tp))
    messages += sent["cp"] / neighbor_bandwidth(links, group_of(links, cp, tp))
    messages += sent["pp"] / neighbor_bandwidth(links, group_of(links, pp, stage))
    slots = layout["m"] + (pp - 1) / layout["chunks"]
    data = sent["dp"] / ring_bandwidth(links, group_of(links, layout["dp"] * cp, tp))
    return slots * (work / gpu["flops"] + messages / layout["m"]) + data


def num_gpus(layout: Sizes) -> int:
    return layout["tp"] * layout["cp"] * layout["pp"] * layout["dp"]


def tokens_per_step(model: Sizes, layout: Sizes) -> int:
    return layout["b"] * layout["m"] * layout["dp"] * model["sequence"]


def bill(model: Sizes, layout: Sizes, gpu: Sizes, tokens: float) -> list[float]:
    """[MFU by 6P per token, days of work, dollars], without failures."""
    seconds, gpus = step_seconds(model, layout, gpu), num_gpus(layout)
    a_step = tokens_per_step(model, layout)
    days = tokens / a_step * seconds / 86400
    used = utilisation(6 * model["parameters"], a_step, seconds, gpus, gpu["peak"])
    return [used, days, gpus * 24 * days * gpu["dollars"]]


def document(brief: Sizes, layout: Sizes) -> dict[str, float]:
    """The numbers of a layout for a brief, including failures and checkpoints."""
    model, gpu, gpus = brief["model"], brief["gpu"], num_gpus(layout)
    used, days, _ = bill(model, layout, gpu, brief["tokens"])
    between = failures.mean_seconds_between(gpus, 3600 * gpu["hours"])
    save = failures.checkpoint_bytes(model["parameters"]) / brief["storage"]
    interval = failures.best_interval(save, between)
    share = failures.goodput(interval, save, between, brief["restart"])
    days /= share
    return {
        "gpu_bytes": gpu_bytes(model, layout),
        "seconds": step_seconds(model, layout, gpu),
        "mfu": used,
        "interval": interval,
        "goodput": share,
        "days": days,
        "failures": failures.expected_failures(86400 * days, between),
        "dollars": gpus * 24 * days * gpu["dollars"],
    }


def written(sizes: Sizes) -> str:
    """Format sizes for students: "tp 8, cp 1, flops 6e+14"; integers below a million are written in full."""
    return ", ".join(f"{name} {value if abs(value) < 10**6 else f'{value:.4g}'}" for name, value in sizes.items())


# ---- drawn sizes -----------------------------------------------------------------------------------------------------


def drawn_model(rng: Random, layers: int, heads: int, sequence: int = 4096) -> Sizes:
    hidden = heads * rng.choice([96, 112, 128])
    return {
        "parameters": 12 * layers * hidden**2 + rng.randint(1, 9) * 10**8,
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv": hidden // rng.choice([1, 4, 8]),
        "sequence": sequence,
    }


def drawn_gpu(rng: Random) -> Sizes:
    flops = rng.randint(10, 90) * 1e13
    return {
        "flops": flops,
        "nvlink": rng.randint(10, 90) * 1e10,
        "network": rng.randint(10, 90) * 1e9,
        "per_server": rng.choice([8, 16]),
        "peak": flops * rng.choice([1.25, 1.6, 2.0]),
        "memory": rng.choice([40, 80, 141]) * 1e9,
        "dollars": rng.randint(10, 50) / 10,
        "hours": rng.randint(20, 90) * 1e3,
    }


def drawn_layouts(rng: Random) -> list[Sizes]:
    """Each axis alone, all together, with chunks, recomputation, fewer microbatches than stages, and one GPU."""

    def of(**sizes: Any) -> Sizes:
        plain = {"tp": 1, "cp": 1, "pp": 1, "dp": 1, "b": rng.randint(1, 3), "m": 1, "chunks": 1, "recompute": False}
        return plain | sizes

    many = rng.randint(3, 6)
    return [
        of(m=many),
        of(tp=rng.choice([2, 4, 8]), m=many),
        of(cp=rng.choice([2, 4]), m=many),
        of(pp=4, m=4 * many),
        of(pp=8, m=many),
        of(dp=rng.randint(2, 64), m=many),
        of(tp=8, cp=4, pp=4, dp=rng.randint(2, 64), m=8 * many),
        of(tp=2, cp=2, pp=4, dp=rng.randint(2, 64), m=4 * many, chunks=rng.choice([2, 3])),
        of(tp=4, cp=2, pp=2, dp=rng.randint(2, 64), m=many, recompute=True),
        of(tp=8, cp=2, pp=4, dp=rng.randint(2, 9), m=4 * many, chunks=2, recompute=True),
    ]
