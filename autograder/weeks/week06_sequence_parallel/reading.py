"""Predict what Megatron's layers send with sequence parallelism; the installed layers are run, and decide."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case
from autograder.checks.traces import trace_check
from autograder.traces import SequenceParallel, record
from autograder.traces.places import GRAD_INPUT, LINEAR

PAGE = {"tp": 2, "s": 8, "b": 1, "h": 6, "whole_gradient": True}


def recorded(case: Case) -> dict[str, Any]:
    """Record a run with these sizes on the last rank, and answer from it; the MLP is 2h wide."""
    trace = record(SequenceParallel(world=case["tp"], f=2 * case["h"], **case), case["tp"] - 1, LINEAR)
    column = trace.visits(GRAD_INPUT)[1].values
    after = trace.next_after(GRAD_INPUT, 1)
    return {
        "calls": [call.name for call in trace.calls],
        "given": [call.given for call in trace.calls],
        "kept": [column["input"], column["total_input"]],
        "next": [after.name, after.given] if after else None,
    }


def _draw(rng: Random) -> list[Case]:
    """Both kinds of gradient, odd sizes, and three ranks as well as a power of two."""

    def case(tp: int, whole_gradient: bool) -> Case:
        sizes = {"s": tp * rng.randint(2, 5), "b": rng.randint(1, 4), "h": tp * rng.randint(2, 5)}
        return {"tp": tp, **sizes, "whole_gradient": whole_gradient}

    return [case(3, True), case(rng.choice((2, 4, 8)), False)]


CHECK = trace_check(
    "week06.reading",
    recorded,
    {
        "calls": "write ḡ or g next to each layer, then their adjoints backward; the column layer gathers its input "
        "again, and a whole gradient needs no sum",
        "given": "an all-gather is given this rank's part of the sequence, a reduce-scatter all of it",
        "kept": "the second visit is the column layer's; what does save_for_backward keep, and what was gathered again",
        "next": "the first visit is the row layer's, whose input was not gathered: which layer goes backward next",
    },
    public=(PAGE, {"tp": 4, "s": 8, "b": 3, "h": 8, "whole_gradient": False}),
    draw=_draw,
    hints=(
        "Three calls in the forward: before the column layer, after the row layer, and the last gather.",
        "Backward: the last gather's adjoint is a reduce-scatter or a plain split; the row layer's reduce-scatter "
        "becomes an all-gather; the column layer gathers its input and scatters its gradient.",
        "Six calls with a whole gradient, seven without; each moves between [s/t, b, h] and [s, b, h].",
    ),
)
