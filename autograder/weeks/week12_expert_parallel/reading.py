"""Predict what Megatron's token dispatcher sends; the installed dispatcher is run on real ranks, and decides."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case
from autograder.checks.traces import trace_check
from autograder.traces import Experts, record
from autograder.traces.places import ALL_TO_ALL, DISPATCH

PAGE = {"rank": 0, "experts": 4, "h": 8, "routes": [[[0, 2], [0, 1], [2, 3]], [[2, 3], [1, 2], [0, 3]]]}


def recorded(case: Case) -> dict[str, Any]:
    """Record a run with these routes on this rank, and answer from it."""
    routes = tuple(tuple(map(tuple, tokens)) for tokens in case["routes"])
    trace = record(Experts(len(routes), case["experts"], case["h"], routes), case["rank"], DISPATCH, real=True)
    splits = trace.visits(ALL_TO_ALL)[0].values
    return {
        "sent": splits["input_split_sizes"],
        "received": splits["output_split_sizes"],
        "given": [call.given for call in trace.calls if call.name == "all_to_all_single"],
    }


def _draw(rng: Random) -> list[Case]:
    """Two and four ranks, k of 2 and 3, different numbers of tokens, and a rank that receives nothing."""

    def case(world: int, own: int, k: int, last: int) -> Case:
        experts = world * own
        routes = [[rng.sample(range(last), k) for _ in range(rng.randint(2, 5))] for _ in range(world)]
        return {"rank": rng.randrange(world), "experts": experts, "h": rng.randint(2, 9), "routes": routes}

    return [case(2, 3, 3, 6), case(4, 2, 2, 6) | {"rank": 3}]


CHECK = trace_check(
    "week12.reading",
    recorded,
    {
        "sent": "one row for each token and expert: a token whose two experts share a rank is sent there twice",
        "received": "count, on every rank, the rows for this one",
        "given": "forward: rows, their weights, rows again; backward: autograd runs what was called last first",
    },
    public=(PAGE, {"rank": 1, "experts": 4, "h": 3, "routes": [[[0, 1], [1, 0]], [[1, 0]]]}),
    draw=_draw,
    hints=(
        "Expert e is on rank e // (experts / ranks). Count rows per source and target.",
        "The dispatcher sends rows and weights with the same splits, and combines with the splits exchanged.",
        "With n rows sent and m received: [n, h], [n], [m, h], then backward [n, h], [m], [m, h].",
    ),
)
