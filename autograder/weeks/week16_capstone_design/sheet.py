"""The bytes that a GPU holds, and the bytes that it sends over each axis."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week16_capstone_design._design import (
    LLAMA_405B,
    LONG,
    MASKED,
    SHORT,
    drawn_layouts,
    drawn_model,
    gpu_bytes,
    sent_bytes,
    written,
)

PARTS = ("gpu_bytes", "sent_bytes")
AXES = ("tp", "cp", "pp", "dp")
WHERE = {
    "tp": "Count all-reduces per layer and microbatch: forward, backward, and recomputation.",
    "cp": "Keys and values travel around the ring in the forward, and again with their gradients in the backward.",
    "pp": "Each chunk sends an activation forward and its gradient back; each tensor rank sends its own part.",
    "dp": "Which ranks hold the same parameters? How many bytes are sent for each gradient and each weight?",
}


def _make(case: Case, rng: Random) -> Task:
    expected = {"gpu_bytes": gpu_bytes, "sent_bytes": sent_bytes}[case["part"]](case["model"], case["layout"])
    arguments = [case["model"], case["layout"]]
    return Task(call=case["part"], ranks=1, inputs=[[arguments]], expected=[expected], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    sizes = f"Layout: {written(case['layout'])}. Model: {written(case['model'])}."
    if case["part"] == "gpu_bytes":
        return (
            None if close(received, expected) else f"A GPU of the first stage does not hold {received!r} bytes. {sizes}"
        )
    if not isinstance(received, dict) or set(received) != set(AXES):
        return f"sent_bytes must return a dict with {', '.join(AXES)}."
    for axis in AXES:
        if not close(received[axis], expected[axis]) and not (received[axis] == expected[axis] == 0):
            return f"A rank does not send {received[axis]!r} bytes over {axis}. {WHERE[axis]} {sizes}"
    return None


def _draw(rng: Random) -> list[Case]:
    model = drawn_model(rng, 48, 32, rng.choice([2048, 4096, 8192]))
    return [{"model": model, "layout": layout, "part": part} for part in PARTS for layout in drawn_layouts(rng)]


CHECK = Check(
    exercise="week16.sheet",
    points=2,
    names=PARTS,
    public=tuple(
        {"model": LLAMA_405B, "layout": layout, "part": part}
        for part in PARTS
        for layout in (
            SHORT,
            LONG,
            {"tp": 8, "cp": 2, "pp": 7, "dp": 2, "b": 2, "m": 4, "chunks": 1, "recompute": True},
            {"tp": 1, "cp": 1, "pp": 1, "dp": 8, "b": 1, "m": 1, "chunks": 1, "recompute": False},
        )
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    parts=dict.fromkeys(PARTS, 0.5),
    hints=(
        "Parameters of a rank: all divided by tp * pp. dp * cp ranks hold the same ones, because cp splits only the "
        "sequence.",
        "In flight: min(pp, m) microbatches of layers/pp layers; with chunks, layers * (1 + (pp-1)/(pp*chunks)) in "
        "total.",
        "With recomputation: 2 bytes per position and width in each layer instead of 34, plus one layer with 34; six "
        "all-reduces instead of four; four rounds of keys and values instead of three.",
    ),
)
