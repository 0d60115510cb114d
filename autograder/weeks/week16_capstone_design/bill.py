"""The seconds of a step; the MFU, days and dollars of a training run."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week16_capstone_design._design import (
    H100,
    LLAMA_405B,
    LONG,
    MASKED,
    SHORT,
    bill,
    drawn_gpu,
    drawn_layouts,
    drawn_model,
    step_seconds,
    written,
)

PARTS = ("step_seconds", "bill")
NAMES = ("the MFU by 6P per token", "the days of work", "the dollars for these days")


def _make(case: Case, rng: Random) -> Task:
    given = [case["model"], case["layout"], case["gpu"]]
    if case["part"] == "step_seconds":
        expected = [step_seconds(*given)]
    else:
        given, expected = [*given, case["tokens"]], bill(*given, case["tokens"])
    return Task(call=case["part"], ranks=1, inputs=[[given]], expected=[expected], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    sizes = {"Layout": case["layout"], "GPU": case["gpu"], "Model": case["model"]}
    where = " ".join(f"{name}: {written(values)}." for name, values in sizes.items())
    if case["part"] == "step_seconds":
        return None if close(received, expected[0]) else f"A step does not take {received!r} seconds. {where}"
    if not isinstance(received, list | tuple) or len(received) != 3:
        return f"bill must return three numbers: {'; '.join(NAMES)}."
    for name, number, right in zip(NAMES, received, expected, strict=True):
        if not close(number, right, 1e-4):  # the last step may be rounded up
            return f"{number!r} is not {name} for {case['tokens']:.4g} tokens. {where}"
    return None


def _draw(rng: Random) -> list[Case]:
    """About 20,000 steps, so that rounding up the last one does not matter."""
    model = drawn_model(rng, 48, 32)
    cases = []
    for part in PARTS:
        for layout in drawn_layouts(rng):
            a_step = layout["b"] * layout["m"] * layout["dp"] * model["sequence"]
            tokens = {"tokens": rng.randint(15_000, 25_000) * a_step + a_step // 3}
            cases.append({"model": model, "layout": layout, "gpu": drawn_gpu(rng), "part": part} | tokens)
    return cases


CHECK = Check(
    exercise="week16.bill",
    points=2,
    names=PARTS,
    public=tuple(
        {"model": LLAMA_405B, "layout": layout, "gpu": H100, "part": part, "tokens": 15_600_000_000_000}
        for part in PARTS
        for layout in (
            SHORT,
            LONG,
            {"tp": 4, "cp": 2, "pp": 7, "dp": 2, "b": 2, "m": 4, "chunks": 1, "recompute": True},
            {"tp": 4, "cp": 4, "pp": 7, "dp": 2, "b": 1, "m": 4, "chunks": 1, "recompute": False},
        )
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    parts=dict.fromkeys(PARTS, 0.5),
    hints=(
        "One slot is a microbatch on one stage, its work and its messages. How many slots run in sequence?",
        "sent_bytes counts a step: a slot has 1/m of tp, cp and pp. `link` needs the stride of an axis's ranks: "
        "1 for tp, tp for cp and the copies, tp * cp * dp for stages.",
        "(m + (pp-1)/chunks) * (work + messages) + dp bytes / link. MFU counts 6P FLOPs per token, recomputed or not.",
    ),
)
