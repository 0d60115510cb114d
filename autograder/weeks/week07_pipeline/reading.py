"""Predict the messages of Megatron's 1F1B; the installed schedule is run, and decides."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case
from autograder.checks.traces import trace_check
from autograder.traces import Pipeline, record
from autograder.traces.places import BACKWARD, COOLDOWN, ONE_F_ONE_B, STEADY

PAGE = {"rank": 5, "world": 8, "pp": 4, "microbatches": 6, "visit": 2}


def recorded(case: Case) -> dict[str, Any]:
    """Record a run with these sizes on this rank, and answer from it."""
    layout = Pipeline(case["world"], 1, case["pp"], chunks=1, microbatches=case["microbatches"], s=3, b=1, h=8)
    trace = record(layout, case["rank"], ONE_F_ONE_B)
    return {
        "ranks": list(trace.calls[0].ranks),
        "before": len(trace.before(BACKWARD, COOLDOWN)),
        "next": [[call.name, call.peer] for call in trace.next_batch(STEADY, case["visit"])],
    }


def _draw(rng: Random) -> list[Case]:
    """First, middle and last stages, few and many microbatches, visits that exist and one that does not."""

    def case(stage: int, microbatches: int, visit: int, pp: int) -> Case:
        width = rng.randint(1, 4)
        rank = stage * width + rng.randrange(width)
        return {"rank": rank, "world": width * pp, "pp": pp, "microbatches": microbatches, "visit": visit}

    pp = rng.randint(3, 6)
    many = rng.randint(pp, pp + 6)
    return [
        case(0, many, 1, pp),
        case(rng.randint(1, pp - 2), many, many - pp + 1, pp),
        case(pp - 1, many, rng.randint(1, many - 1), pp),
        case(pp - 1, many, many, pp),
        case(rng.randint(1, pp - 2), many, many, pp),
        case(0, 2, 1, pp),
        case(1, 1, 1, pp),
    ]


CHECK = trace_check(
    "week07.reading",
    recorded,
    {
        "ranks": "stages are world / pp ranks apart",
        "before": "count the warm-up's messages and those of the steady state's first iteration, on a rank with these "
        "neighbors",
        "next": "the last stage sends nothing forward: which function does it reach next, and in its last iteration",
    },
    public=(
        PAGE,
        {"rank": 7, "world": 8, "pp": 4, "microbatches": 6, "visit": 6},
        {"rank": 0, "world": 4, "pp": 4, "microbatches": 2, "visit": 1},
    ),
    draw=_draw,
    hints=(
        "How many forwards has this rank run when its first backward begins? Each came with a message, except at an "
        "end of the pipeline.",
        "A middle stage with k forwards before its first backward has received k activations and one gradient, and "
        "has sent k activations.",
        "The steady state's line is visited max(0, M - warm-up) times. The last stage continues with "
        "send_backward_recv_forward, and in its last iteration to send_backward.",
    ),
)
