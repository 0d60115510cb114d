"""The bytes that a rank of a layout holds, and the layouts whose ranks fit."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week10_planning._clusters import (
    GPT,
    MASKED,
    Layout,
    all_layouts,
    as_layouts,
    drawn_model,
    rank_bytes,
)

PARTS = ("rank_bytes", "fitting")


def _make(case: Case, rng: Random) -> Task:
    model, sequences = case["model"], case["sequences"]
    if case["part"] == "rank_bytes":
        expected = rank_bytes(model, case["layout"], sequences)
        return _task(case, [model, case["layout"], sequences], expected)
    found = _layouts(case)
    rng.shuffle(found)  # so that only the given order is right
    fit = [layout for layout in found if rank_bytes(model, layout, sequences) <= case["limit_bytes"]]
    return _task(case, [found, model, sequences, case["limit_bytes"]], fit)


def _task(case: Case, arguments: list, expected) -> Task:
    return Task(call=case["part"], ranks=1, inputs=[[arguments]], expected=[expected], groups=[])


def _layouts(case: Case) -> list[Layout]:
    model = case["model"]
    return all_layouts(case["num_gpus"], 8, model["layers"], model["heads"], case["sequences"], [1, 2, 4])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    if case["part"] == "fitting":
        return _judge_fitting(case, as_layouts(received), expected)
    if close(received, expected):
        return None
    where = f"{case['model']}, {case['layout']}, {case['sequences']} sequences"
    return f"{received!r} is not the number of bytes on a rank: {where}."


def _judge_fitting(case: Case, reported: list[Layout] | None, expected: list[Layout]) -> str | None:
    if reported is None:
        return "fitting must return a list of layouts, each (tp, pp, dp, b)."
    limit = f"into {case['limit_bytes']:.4g} bytes"
    if extra := [layout for layout in reported if layout not in expected]:
        return f"{extra[0]} does not fit {limit}, or was not among the given layouts: {case['model']}."
    if missing := [layout for layout in expected if layout not in reported]:
        return f"{missing[0]} fits {limit} but is missing: {case['model']}."
    return None if reported == expected else "Return each layout once, in the order in which they were given."


def _draw(rng: Random) -> list[Case]:
    cases: list[Case] = []
    for num_gpus, layers, heads, sequences in ((64, 48, 32, 256), (8, 24, 16, 16), (128, 60, 40, 128)):
        model = drawn_model(rng, layers, heads)
        case = {"model": model, "num_gpus": num_gpus, "sequences": sequences}
        some = sorted((rank_bytes(model, layout, sequences), layout) for layout in _layouts(case))
        cases += [case | {"layout": layout, "part": "rank_bytes"} for _, layout in some]
        for at in (len(some) // 2, len(some) - 1):  # between two layouts, so that rounding decides nothing
            cases.append(case | {"limit_bytes": (some[at - 1][0] + some[at][0]) / 2, "part": "fitting"})
    few = {"model": drawn_model(rng, 32, 32), "num_gpus": 32, "sequences": 16}  # fewer microbatches than stages
    cases.append(few | {"layout": (4, 8, 1, 4), "part": "rank_bytes"})
    cases.append(few | {"limit_bytes": 1.0, "part": "fitting"})
    return cases


PUBLIC = {"model": GPT, "num_gpus": 1024, "sequences": 1536}
CHECK = Check(
    exercise="week10.fitting",
    points=3,
    names=PARTS,
    public=(
        PUBLIC | {"layout": (8, 8, 16, 1), "part": "rank_bytes"},
        PUBLIC | {"sequences": 16, "layout": (8, 16, 8, 1), "part": "rank_bytes"},  # fewer microbatches than stages
        PUBLIC | {"limit_bytes": 73.6 * 2**30, "part": "fitting"},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    parts={"rank_bytes": 2 / 3, "fitting": 1 / 3},
    hints=(
        "States as in the warm-up, then activations: for how many layers, and for how many microbatches at once?",
        "The first stage of 1F1B holds min(pp, m) microbatches of layers/pp layers; m = sequences / (dp * b).",
        "A layer keeps 34 * sequence * b * hidden / tp bytes.",
    ),
)
