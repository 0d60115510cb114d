"""Predict the slices and calls of Megatron's distributed optimizer; the installed one is run, and decides."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case
from autograder.checks.traces import trace_check
from autograder.traces import Call, DistributedOptimizer, record
from autograder.traces.places import NEXT_STEP, OPTIMIZER, OWN_PART

PAGE = {"rank": 2, "world": 4, "widths": [8, 24, 10, 8], "overlap": False}
ONE_BUCKET = 1 << 30


def recorded(case: Case) -> dict[str, Any]:
    """Record a run with these sizes on this rank, in its second step, and answer from it."""
    layout = DistributedOptimizer(case["world"], tuple(case["widths"]), ONE_BUCKET, case["overlap"])
    trace = record(layout, case["rank"], OPTIMIZER)
    step = [event for event in trace.after(NEXT_STEP, 2) if isinstance(event, Call)]
    received, given = next(call.shapes for call in step if call.name == "reduce_scatter_tensor")
    return {
        "message": [*given, *received],
        "parts": [visit.values["shard_model_param"][0] for visit in trace.visits(OWN_PART)],
        "calls": [call.name for call in step],
    }


def _draw(rng: Random) -> list[Case]:
    """Worlds that divide 128 and worlds that do not, with slices inside, across and behind parameters."""

    def case(world: int, rank: int, overlap: bool) -> Case:
        widths = [rng.randint(3, 30) for _ in range(rng.randint(3, 5))]
        return {"rank": rank, "world": world, "widths": widths, "overlap": overlap}

    worlds = [2, 3, rng.choice((4, 8)), rng.choice((5, 6, 7))]
    cases = [case(world, rng.randrange(world), rng.random() < 0.5) for world in worlds]
    return [*cases, {"rank": 5, "world": 6, "widths": [4, 9, 7], "overlap": True}]  # padding alone


CHECK = trace_check(
    "week03.reading",
    recorded,
    {
        "message": "start each weight at a multiple of 64, then pad the end so that every rank's slice is equal",
        "parts": "parameters are placed from the last to the first; intersect each with this rank's slice",
        "calls": "without overlap, the updated weights are gathered at the end of step(); with it, in the next forward",
    },
    public=(
        PAGE,
        {"rank": 0, "world": 2, "widths": [5, 30, 20], "overlap": True},
        {"rank": 2, "world": 3, "widths": [4, 9, 7], "overlap": False},
    ),
    draw=_draw,
    hints=(
        "Read _pad_start_of_param_if_needed and _pad_end_of_bucket_if_needed in param_and_grad_buffer.py.",
        "The end is a multiple of lcm(world, 128). Slice r is [r * length, (r + 1) * length), padding included.",
        "Begin with start = 0; for each size in reverse: round start up to a multiple of 64, note "
        "(start, start + size), and continue there.",
    ),
)
