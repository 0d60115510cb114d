"""Predict what Megatron's tensor-parallel layers send; the installed layers are run, and decide."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case
from autograder.checks.traces import trace_check
from autograder.traces import TensorParallel, record
from autograder.traces.places import GRAD_INPUT, LINEAR, MATMUL

PAGE = {"rank": 6, "world": 8, "tp": 4, "blocks": 2, "s": 3, "b": 1, "h": 8, "f": 16, "vocabulary": 12}


def recorded(case: Case) -> dict[str, Any]:
    """Record a run with these sizes on this rank, and answer from it."""
    sizes = {name: size for name, size in case.items() if name != "rank"}
    trace = record(TensorParallel(**sizes), case["rank"], LINEAR)
    return {
        "ranks": list(trace.calls[0].ranks),
        "weight": trace.visits(MATMUL)[1].values["weight"],
        "followed": trace.followed(GRAD_INPUT),
        "calls": [call.given for call in trace.calls],
    }


def _draw(rng: Random) -> list[Case]:
    """One rank per group, three, and a power of two, with odd sizes and groups that do not begin at rank 0."""

    def case(tp: int) -> Case:
        world = tp * rng.randint(2, 4)
        sizes = {"s": rng.randint(2, 5), "b": rng.randint(2, 5), "h": tp * rng.randint(2, 5)}
        sizes |= {"f": tp * rng.randint(6, 9), "vocabulary": tp * rng.randint(3, 9)}
        return {"rank": rng.randrange(tp, world), "world": world, "tp": tp, "blocks": rng.randint(1, 4), **sizes}

    return [case(tp) for tp in (1, 3, rng.choice((2, 4, 8)))]


CHECK = trace_check(
    "week05.reading",
    recorded,
    {
        "ranks": "neighbors share a tensor-parallel group, so which multiple of tp does this rank's group begin with",
        "weight": "the second visit is the row layer's; read with which shape matmul needs weight.t()",
        "followed": "which layers go backward in which order, and for which of them is allreduce_dgrad true",
        "calls": "count g's in the forward, the loss's three numbers, and f's in the backward; which of them check "
        "the size of the group",
    },
    public=(
        PAGE,
        {"rank": 1, "world": 2, "tp": 2, "blocks": 1, "s": 4, "b": 2, "h": 6, "f": 10, "vocabulary": 14},
        {"rank": 2, "world": 4, "tp": 1, "blocks": 3, "s": 2, "b": 3, "h": 5, "f": 7, "vocabulary": 9},
    ),
    draw=_draw,
    hints=(
        "Follow one activation through embedding, MLPs, head and loss, then backward; note each call and its shape.",
        "Megatron stores a weight as [outputs, inputs]. Only a column layer reduces its input's gradient.",
        "With tp = 1, g and f return early, but the loss calls all_reduce three times anyway, in a group of one.",
    ),
)
