"""Which layers to recompute, and how, under a memory cap with the fewest extra FLOPs. The check simulates the plan.

Memory is that of the backward: in the backward of layer i, all that layer i computes is in memory, and what the layers
before it keep. Any plan under the cap with the fewest FLOPs is correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of
from autograder.checks.packets import size
from autograder.weeks.week06_sequence_parallel._shared import WAYS, extra_flops, kept_bytes, peak_bytes

SIZES = ("num_layers", "s", "b", "h", "a", "t", "sequence_parallel", "cap_bytes")
SLACK = 1e-9
GPT3 = {"num_layers": 12, "s": 2048, "b": 1, "h": 12288, "a": 96, "t": 8}
LONGER = {"num_layers": 4, "s": 8192, "b": 1, "h": 1024, "a": 8, "t": 1}  # s > 6h: 1 full < 2 selective


def least_flops(case: Case) -> float | None:
    """The cheapest combination of fully and selectively recomputed layers that fits, or None if none does.

    Layers are equal, so counts are enough. The last layer's backward needs all its activations in any case.
    """
    others, kept, again = case["num_layers"] - 1, kept_bytes(case), extra_flops(case)
    fitting = [
        full * again["full"] + selective * again["selective"]
        for full in range(others + 1)
        for selective in range(others + 1 - full)
        if full * kept["full"] + selective * kept["selective"] + (others + 1 - full - selective) * kept["none"]
        <= case["cap_bytes"]
    ]
    return min(fitting, default=None)


def cap_for(sizes: Case, full: int, selective: int, spare: float = 0.0) -> Case:
    """A case whose cap is what these recomputed layers need, plus or minus a share of one layer's scores."""
    kept, others = kept_bytes(sizes), sizes["num_layers"] - 1
    need = full * kept["full"] + selective * kept["selective"] + (others + 1 - full - selective) * kept["none"]
    return sizes | {"cap_bytes": int(need + spare * (kept["none"] - kept["selective"]))}


def _make(case: Case, rng: Random) -> Task:
    args = [case[name] for name in SIZES]
    return Task("cheapest_plan", 1, inputs=[[args]], expected=[least_flops(case)], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    plan, least = value_of(reply), task.expected[0]
    where = f"For {case['num_layers']} layers, s={case['s']}, h={case['h']}, a={case['a']}, b={case['b']}, "
    where += f"t={case['t']}, {'with' if case['sequence_parallel'] else 'without'} sequence parallelism"
    if least is None:
        return None if plan is None else f"{where}: no plan fits into {size(case['cap_bytes'])}; return None."
    if not isinstance(plan, list | tuple) or len(plan) != case["num_layers"] or any(one not in WAYS for one in plan):
        return f"{where}: return {case['num_layers']} strings, each one of {', '.join(WAYS)}; a plan fits."
    if (peak := peak_bytes(case, plan)) > case["cap_bytes"] * (1 + SLACK):
        cap = f"at the peak it needs {size(peak)}, and the cap is {size(case['cap_bytes'])}"
        return f"{where}: the plan ({_counted(plan)}) does not fit: {cap}. In which layer's backward is the most held?"
    flops = sum(extra_flops(case)[one] for one in plan)
    if flops > least * (1 + SLACK):
        times = f"recomputes {flops:.4g} FLOPs" + (f" where {least:.4g} are enough" if least else "; none are needed")
        return f"{where}: the plan ({_counted(plan)}) fits, but {times}. Which layer is recomputed needlessly?"
    return None


def _counted(plan: Sequence[str]) -> str:
    return ", ".join(f"{list(plan).count(way)} {way}" for way in WAYS if way in plan)


def _draw(rng: Random) -> list[Case]:
    """Every mixture, with and without sequence parallelism; caps that are met almost exactly; one layer; no plan."""

    def sizes(layers: int, t: int, split: bool, *, long: bool = False) -> Case:
        heads, width = t * rng.randint(2, 6), rng.choice([64, 128])
        h = heads * width
        s = 8 * h if long else t * rng.randint(64, 256)
        return {"num_layers": layers, "s": s, "b": rng.randint(1, 3), "h": h, "a": heads, "t": t} | {
            "sequence_parallel": split
        }

    some = rng.randint(3, 20)
    tall = sizes(rng.randint(60, 118), 8, True)
    lone = sizes(1, 4, True)
    return [
        cap_for(sizes(24, 1, False), 0, 0, 0.5),  # everything fits
        cap_for(sizes(24, 2, True), 0, some, 1e-6),  # fits exactly
        cap_for(sizes(24, 4, False), 0, some, -1e-6),  # just misses: one more layer
        cap_for(tall, some, tall["num_layers"] - 1 - some, 0.5),  # all recomputed, with a little room
        cap_for(sizes(24, 8, False), some, 10 - some // 2, 0.3),
        cap_for(sizes(16, 2, True, long=True), 0, 8, -0.05),  # long: one full layer costs less than two selective
        cap_for(sizes(16, 2, True, long=True), 0, 1, -0.05),
        cap_for(sizes(30, 4, True), 29, 0, 1e-6),
        cap_for(sizes(30, 4, False), 29, 0, -1e-3),  # nothing fits
        lone | {"cap_bytes": int(1.01 * kept_bytes(lone)["none"])},
        lone | {"cap_bytes": int(0.99 * kept_bytes(lone)["none"])},
    ]


CHECK = Check(
    exercise="week06.memory-cap",
    points=3,
    optional=True,
    names=("cheapest_plan",),
    public=(
        GPT3 | {"sequence_parallel": True, "cap_bytes": 3_000_000_000},
        GPT3 | {"sequence_parallel": False, "cap_bytes": 4_160_000_000},
        GPT3 | {"sequence_parallel": True, "cap_bytes": 900_000_000},
        GPT3 | {"sequence_parallel": True, "cap_bytes": 300_000_000},
        GPT3 | {"num_layers": 1, "sequence_parallel": False, "cap_bytes": 10**9},
        LONGER | {"sequence_parallel": False, "cap_bytes": 9_060_000_000},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.costs",),
    hints=(
        "Walk through a plan backwards: in the backward of layer i all of layer i is in memory, and what earlier "
        "layers keep. When is that the most?",
        "The last layer's backward comes first and needs all its activations, recomputed or not: never recompute it. "
        "Layers are equal, so only two numbers are free: how many full, how many selective.",
        "for full in range(L): for selective in range(L - full): if it fits and costs less than the best so far, keep "
        "it. The cost is full * (24bsh² + 4bs²h) + selective * 4bs²h.",
    ),
)
