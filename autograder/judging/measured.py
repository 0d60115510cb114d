"""Record what an answer sends and holds on each case of its check, while it is judged."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task, calls_of

Measured = dict[str, Any]


def noting(check: Check, found: list[Measured]) -> Check:
    """The same check, which also appends to `found` what the ranks sent and held on each case."""

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        with suppress(Exception):  # a rank may report anything, and measuring must not break the check
            if check.program == "on_rank" and (measured := of_case(case, reply)):
                found.append(measured)
        return check.judge(case, task, reply)

    return replace(check, judge=judge)


def of_case(case: Case, reply: Reply) -> Measured | None:
    """{"case", "sent_bytes", "calls", "peak_bytes"} with one number per rank, or None if no calls were read.

    Collectives are counted as rings. `peak_bytes` is missing if memory was not measured.
    """
    if not reply.reads_calls or reply.report or any("raised" in reported for reported in reply.ranks):
        return None
    calls = [calls_of(reply, rank) for rank in range(len(reply.ranks))]
    sent = [[call for call in own if call.kind != "recv"] for own in calls]
    facts: Measured = {
        "case": case,
        "sent_bytes": [round(sum(call.sent_bytes for call in own)) for own in sent],
        "calls": [len(own) for own in sent],
    }
    held = [peak for peak in reply.peak_bytes if peak is not None]
    return facts | ({"peak_bytes": held} if held else {})
