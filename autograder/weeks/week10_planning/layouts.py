"""Every layout that the model, servers and batch allow: none missing, none twice, none impossible."""

from __future__ import annotations

from itertools import product
from random import Random

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, numbers_of, shown, trouble_in_call
from autograder.weeks.week10_planning._clusters import MASKED, all_layouts, as_layouts

NAMES = ("num_gpus", "gpus_per_server", "num_layers", "num_heads", "sequences", "microbatches")
MOST = 100_000


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    value = numbers_of(reply)
    if isinstance(value, list | tuple) and len(value) > MOST:
        return f"For ({shown(case)}), you return {len(value)} layouts; there are far fewer."
    received = as_layouts(value)
    if received is None:
        return f"For ({shown(case)}), return a list of layouts, each (tp, pp, dp, b) in whole numbers."
    expected = set(task.expected[0])
    if extra := sorted(set(received) - expected):
        return f"For ({shown(case)}), {extra[0]} is not a possible layout: {_why(case, extra[0])}."
    if missing := sorted(expected - set(received)):
        num = f"expected {len(expected)} layouts, received {len(set(received))}"
        return f"For ({shown(case)}), {missing[0]} is missing; {num}."
    return f"For ({shown(case)}), some layouts appear twice." if len(received) != len(expected) else None


def _why(case: Case, layout: tuple[int, ...]) -> str:
    tp, pp, dp, b = layout
    reasons = {
        "sizes must be 1 or more": min(layout) < 1,
        f"tp * pp * dp is {tp * pp * dp}": tp * pp * dp != case["num_gpus"],
        f"tp = {tp} does not divide the {case['gpus_per_server']} GPUs of a server": case["gpus_per_server"]
        % (tp or 1),
        f"tp = {tp} does not divide the heads": case["num_heads"] % (tp or 1),
        f"pp = {pp} does not divide the layers": case["num_layers"] % (pp or 1),
        f"b = {b} was not among the microbatches": b not in case["microbatches"],
    }
    return next((text for text, holds in reasons.items() if holds), f"dp * b = {dp * b} does not divide the batch")


def _draw(rng: Random) -> list[Case]:
    sizes = [
        (1, 8, 4, 4, 6, [1, 2, 3]),
        (7, 8, 28, 14, 14, [2]),
        (16, 8, 5, 3, 16, [1, 16]),
        (24, 6, 24, 12, 96, [1, 2]),  # servers of six
        (rng.choice([256, 512]), 8, 96, 96, rng.choice([512, 1536]), [1, 2, 4, 8]),
    ]
    sizes += [(64, 8, *rest, [1, 2, 4]) for rest in product((24, 48), (12, 20), (256, 384))]
    return [dict(zip(NAMES, size, strict=True)) for size in sizes]


CHECK = Check(
    exercise="week10.layouts",
    points=2,
    names=("layouts",),
    public=(
        dict(zip(NAMES, (8, 8, 4, 8, 8, [1, 2]), strict=True)),
        dict(zip(NAMES, (64, 8, 48, 12, 96, [1, 4]), strict=True)),
        dict(zip(NAMES, (48, 4, 36, 12, 96, [1, 3]), strict=True)),  # servers of four; sizes that are not powers of two
    ),
    draw=_draw,
    make=formula_task("layouts", NAMES, lambda case: all_layouts(*(case[name] for name in NAMES))),
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    hints=(
        "Two loops choose tp and pp, and dp is the rest: num_gpus // (tp * pp). A third loop tries the microbatches.",
        "tp divides gpus_per_server and num_heads, pp divides num_layers, tp * pp divides num_gpus.",
        "Keep b where sequences % (dp * b) == 0.",
    ),
)
