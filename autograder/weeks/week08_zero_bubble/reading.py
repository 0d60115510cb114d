"""Predict the order of Megatron's interleaved schedule; the installed schedule is run, and decides."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case
from autograder.checks.traces import trace_check
from autograder.traces import Pipeline, Visit, record
from autograder.traces.places import BACKWARD_CHUNK, FORWARD_CHUNK, INTERLEAVED

PAGE = {"rank": 1, "pp": 4, "chunks": 2, "microbatches": 8, "visit": 7}


def recorded(case: Case) -> dict[str, Any]:
    """Record a run with these sizes on this rank, and answer from it."""
    layout = Pipeline(case["pp"], 1, case["pp"], case["chunks"], case["microbatches"], s=3, b=1, h=8)
    trace = record(layout, case["rank"], INTERLEAVED)
    visits = [event for event in trace.events if isinstance(event, Visit)]
    forward = trace.visits(FORWARD_CHUNK)[case["visit"] - 1].values
    return {
        "before": next(n for n, event in enumerate(visits) if event.place == BACKWARD_CHUNK),
        "forward": [forward["model_chunk_id"], forward["microbatch_id"]],
        "backward": trace.visits(BACKWARD_CHUNK)[case["visit"] - 1].values["model_chunk_id"],
        "messages": len(trace.calls),
    }


def _draw(rng: Random) -> list[Case]:
    """First, middle and last ranks; two and three chunks; as many microbatches as ranks, and more."""

    def case(rank: int, pp: int, chunks: int, groups: int) -> Case:
        visit = rng.randint(1, chunks * groups * pp)
        return {"rank": rank, "pp": pp, "chunks": chunks, "microbatches": groups * pp, "visit": visit}

    pp = rng.randint(3, 5)
    return [
        case(0, pp, 3, 2),
        case(rng.randint(1, pp - 2), pp, 2, 3),
        case(pp - 1, pp, 3, 3),
        case(0, pp, 2, 1),
        case(1, 2, rng.randint(2, 4), 2),
    ]


CHECK = trace_check(
    "week08.reading",
    recorded,
    {
        "before": "read num_warmup_microbatches in get_pp_rank_microbatches; one more forward opens the steady state, "
        "unless there is none left",
        "forward": "a rank runs pp microbatches of one chunk, then the same ones of its next chunk",
        "backward": "backwards follow the same table, with the chunks in reverse order",
        "messages": "each forward of a chunk receives and sends an activation, each backward a gradient; which chunk "
        "of the first and of the last rank has no neighbor",
    },
    public=(
        PAGE,
        {"rank": 0, "pp": 2, "chunks": 2, "microbatches": 2, "visit": 3},
        {"rank": 2, "pp": 3, "chunks": 3, "microbatches": 6, "visit": 14},
    ),
    draw=_draw,
    hints=(
        "Four short formulas; visit - 1 is Megatron's virtual_microbatch_id.",
        "Warm-up: two forwards per rank behind this one, and pp for each chunk but the last. Divide visit - 1 by "
        "pp * chunks: the remainder gives the chunk.",
        "Messages: 4 per microbatch and chunk, less 2 per microbatch on the first rank and on the last.",
    ),
)
