"""Three answers from real code."""

from __future__ import annotations

from typing import Any

from autograder.checks.base import Answer, Case, Check, Task
from autograder.checks.formulas import FORMULAS, failed, value_of

READING = {"messages": 10, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}
READING_SENTENCES = {
    "messages": "every rank but rank 0 sends once on the way up, and is sent to once on the way down",
    "backward_of_copy": "look at the backward of _CopyToModelParallelRegion",
    "order": "forward first, then what its backward calls",
}


def _judge_reading(case: Case, task: Task, answer: Answer) -> str | None:
    if problem := failed(answer):
        return problem
    got = value_of(answer)
    if not isinstance(got, dict):
        return "reading_answers must be a dict with the keys messages, backward_of_copy and order."
    wrong = [key for key, due in READING.items() if _told(got.get(key)) != _told(due)]
    if not wrong:
        return None
    return f"Not yet right: {', '.join(wrong)}. For {wrong[0]}: {READING_SENTENCES[wrong[0]]}."


def _told(value: Any) -> Any:
    """An answer without what does not matter: capital letters, `-` or `_`, list or tuple; True is not 1."""
    if isinstance(value, str):
        return value.strip().lower().replace("-", "_").removeprefix("dist.").removeprefix("torch.distributed.")
    if isinstance(value, list | tuple):
        return [_told(item) for item in value]
    return (type(value).__name__, value)


CHECK = Check(
    exercise="week01.reading",
    points=1,
    names=("reading_answers",),
    public=({},),
    draw=lambda rng: [{}],
    make=lambda case, rng: Task(call=None, ranks=1, inputs=[[]], expected=[], groups=[]),
    judge=_judge_reading,
    program="without_ranks",
    masked=FORMULAS,
    hints=(
        "Open the named files; each question is answered by one line of code.",
        "A tree of N ranks has N-1 edges.",
        "The backward of a copy adds gradients up; the backward of an all-gather is a reduce-scatter.",
    ),
)
