"""The challenge: the cheapest layout that fits and meets a deadline, and all numbers of its document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

from shardlab.costs.models.model import divisors
from shardlab.costs.models.zoo import find_model
from shardlab.costs.sizes import model_sizes

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week16_capstone_design._design import H100, MASKED, Sizes, document, num_gpus, written

WITHIN = 0.01  # of the least dollars
LAYOUT = ("tp", "cp", "pp", "dp", "b", "m", "chunks", "recompute")
NUMBERS = ("gpu_bytes", "seconds", "mfu", "interval", "goodput", "days", "failures", "dollars")
DECIDE = ("gpu_bytes", "days", "dollars")
PARTS = {"numbers": 1 / 3, "cheapest": 2 / 3}
MICROBATCHES, CHUNKS, CONTEXT = (1, 2, 4), (1, 2), (1, 2, 4)
BRIEF = {
    "model": model_sizes(find_model("llama3-70b")),
    "gpu": H100,
    "tokens": 2e12,
    "sequences": 1024,
    "days": 45.0,
    "clusters": [256, 512, 1024, 2048],
    "storage": 2e11,
    "restart": 600.0,
}

SMALL = BRIEF | {"gpu": H100 | {"memory": 40e9}, "days": 60.0}  # the same on smaller GPUs


def layouts(brief: Sizes) -> Iterator[Sizes]:
    """All allowed layouts on all clusters."""
    model, gpu = brief["model"], brief["gpu"]
    tps = [tp for tp in divisors(gpu["per_server"]) if model["heads"] % tp == 0]
    for gpus, tp, cp, pp in product(brief["clusters"], tps, CONTEXT, divisors(model["layers"])):
        dp, rest = divmod(gpus, tp * cp * pp)
        if rest or not dp:
            continue
        for b, chunks, recompute in product(MICROBATCHES, CHUNKS, (False, True)):
            layout = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "b": b, "chunks": chunks, "recompute": recompute}
            layout["m"] = brief["sequences"] // (dp * b)
            if layout["m"] and trouble_with(brief, layout) is None:
                yield layout


def trouble_with(brief: Sizes, layout: Sizes) -> str | None:
    """Why a layout is not allowed; None if it is."""
    model, server, pieces = brief["model"], brief["gpu"]["per_server"], layout["pp"] * layout["chunks"]
    rules = {
        f"it uses {num_gpus(layout)} GPUs, choose one of {brief['clusters']}": num_gpus(layout) in brief["clusters"],
        f"tp must divide the {server} GPUs of a server and the {model['heads']} heads": (
            server % layout["tp"] == 0 and model["heads"] % layout["tp"] == 0
        ),
        f"cp must be one of {CONTEXT}, b of {MICROBATCHES}, chunks of {CHUNKS}": (
            layout["cp"] in CONTEXT and layout["b"] in MICROBATCHES and layout["chunks"] in CHUNKS
        ),
        f"dp * b * m must equal the {brief['sequences']} sequences of a step": (
            layout["dp"] * layout["b"] * layout["m"] == brief["sequences"]
        ),
        f"{model['layers']} layers cannot be split into pp * chunks = {pieces} parts": model["layers"] % pieces == 0,
        "two chunks need pp > 1, and m must be a multiple of pp": (
            layout["chunks"] == 1 or (layout["pp"] > 1 and layout["m"] % layout["pp"] == 0)
        ),
    }
    return next((rule for rule, kept in rules.items() if not kept), None)


def cheapest(brief: Sizes) -> float:
    """The lowest cost of a layout that fits and meets the deadline. Raises ValueError if there is none."""
    found = [document(brief, layout) for layout in layouts(brief)]
    limit = brief["gpu"]["memory"]
    return min(one["dollars"] for one in found if one["gpu_bytes"] <= limit and one["days"] <= brief["days"])


def _make(case: Case, rng: Random) -> Task:
    brief = case["brief"]
    expected = [cheapest(brief)] if case["part"] == "cheapest" else [None]
    return Task(call="design", ranks=1, inputs=[[[brief]]], expected=expected, groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    brief, received = case["brief"], numbers_of(reply)
    if problem := _malformed(received):
        return problem
    if problem := trouble_with(brief, received):
        return f"Not a layout for this brief: {problem}. You chose {_layout(received)}."
    right = document(brief, received)
    return (
        _wrong_number(received, right, NUMBERS)
        if case["part"] == "numbers"
        else _wrong_choice(task, brief, received, right)
    )


def _malformed(received: Any) -> str | None:
    if not isinstance(received, dict):
        return f"design must return a dict with {', '.join((*LAYOUT, *NUMBERS))}."
    if missing := [name for name in (*LAYOUT, *NUMBERS) if name not in received]:
        return f"Your dict lacks {', '.join(missing)}."
    if any(type(received[name]) is not int or received[name] < 1 for name in LAYOUT[:-1]):
        return f"{', '.join(LAYOUT[:-1])} must be ints of at least 1."
    return None if type(received["recompute"]) is bool else "recompute must be True or False."


def _wrong_choice(task: Task, brief: Sizes, received: dict[str, Any], right: dict[str, float]) -> str | None:
    """The complaint about a choice. Wrong days or dollars fail too, because the choice is then right only by luck."""
    if problem := _wrong_number(received, right, DECIDE):
        return f"{problem} Your choice depends on this number."
    for name, limit in (("gpu_bytes", brief["gpu"]["memory"]), ("days", brief["days"])):
        if right[name] > limit:
            return f"{_layout(received)} has {name} {right[name]:.4g}; {limit:.4g} are allowed."
    if right["dollars"] > (1 + WITHIN) * task.expected[0]:
        more = 1 - task.expected[0] / right["dollars"]
        spent = f"{_layout(received)} costs ${right['dollars']:,.0f}"
        return f"{spent}; a {more:.1%} cheaper design fits and meets the deadline."
    return None


def _wrong_number(received: dict[str, Any], right: dict[str, float], names: Sequence[str]) -> str | None:
    for name in names:
        if not close(received[name], right[name]):
            return f"{name} = {received[name]!r} is wrong for {_layout(received)}."
    return None


def _layout(received: dict[str, Any]) -> str:
    return written({name: received[name] for name in LAYOUT})


def _draw(rng: Random) -> list[Case]:
    """A brief whose deadline allows several clusters, one that allows only the largest, one with tight memory."""
    briefs = [
        _drawn(rng, layers=48, heads=32, memory=80e9, clusters=[64, 128, 256, 512], slack=3.5),
        _drawn(rng, layers=80, heads=64, memory=80e9, clusters=[128, 256, 512], slack=1.05),
        _drawn(rng, layers=64, heads=64, memory=40e9, clusters=[128, 256, 512], slack=2.2),
    ]
    return [{"brief": brief, "part": part} for brief in briefs for part in PARTS]


def _drawn(rng: Random, *, layers: int, heads: int, memory: float, clusters: list[int], slack: float) -> Sizes:
    hidden = 128 * heads
    model = {"layers": layers, "hidden": hidden, "heads": heads, "kv": hidden // 8, "sequence": 4096}
    gpu = H100 | {"memory": memory, "dollars": rng.randint(15, 40) / 10, "hours": rng.randint(20, 60) * 1e3}
    brief = {
        "model": model | {"parameters": 12 * layers * hidden**2 + rng.randint(1, 9) * 10**8},
        "gpu": gpu | {"flops": rng.randint(45, 65) * 1e13},
        "tokens": rng.randint(5, 20) * 1e11,
        "sequences": 1024,
        "days": float("inf"),
        "clusters": clusters,
        "storage": rng.randint(2, 9) * 1e10,
        "restart": float(rng.randint(300, 1200)),
    }
    found = [document(brief, layout) for layout in layouts(brief)]
    quickest = min(one["days"] for one in found if one["gpu_bytes"] <= memory)
    return brief | {"days": round(slack * quickest, 3)}


CHECK = Check(
    exercise="week16.design",
    points=3,
    names=("design",),
    public=(*({"brief": BRIEF, "part": part} for part in PARTS), {"brief": SMALL, "part": "cheapest"}),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    timeout=20.0,
    parts=PARTS,
    hints=(
        "First write a function of brief and layout that returns the numbers of one layout. Then loop over layouts.",
        "Nested choices: a cluster, tp, cp, pp, b, chunks and recompute; dp and m follow. Leave out layouts that break "
        "the rules, do not fit or miss the deadline.",
        "days = days of work / goodput; failures = hours of these days * GPUs / hours of one; min by dollars.",
    ),
)
