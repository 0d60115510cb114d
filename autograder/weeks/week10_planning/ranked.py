"""The seconds of a layout's step by a short formula, and the layouts sorted by them."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week10_planning._clusters import (
    GPT,
    H100,
    MASKED,
    Layout,
    all_layouts,
    as_layouts,
    drawn_gpu,
    drawn_model,
    step_seconds,
)

PARTS = ("step_seconds", "ranked")


def _make(case: Case, rng: Random) -> Task:
    model, sequences, gpu = case["model"], case["sequences"], case["gpu"]
    if case["part"] == "step_seconds":
        arguments, expected = (
            [model, case["layout"], sequences, gpu],
            step_seconds(model, case["layout"], sequences, gpu),
        )
    else:
        found = _layouts(case)
        rng.shuffle(found)
        arguments, expected = [found, model, sequences, gpu], found
    return Task(call=case["part"], ranks=1, inputs=[[arguments]], expected=[expected], groups=[])


def _layouts(case: Case) -> list[Layout]:
    model = case["model"]
    return all_layouts(case["num_gpus"], 8, model["layers"], model["heads"], case["sequences"], [1, 2])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    if case["part"] == "step_seconds":
        if close(received, expected):
            return None
        sizes = f"{case['model']}, {case['gpu']}, {case['sequences']} sequences"
        return f"{received!r} is not the number of seconds for {case['layout']}: {sizes}."
    reported = as_layouts(received)
    if reported is None or sorted(reported) != sorted(expected):
        return "ranked must return the given layouts, each once, fastest first."
    seconds = [step_seconds(case["model"], layout, case["sequences"], case["gpu"]) for layout in reported]
    for place in range(1, len(reported)):
        if seconds[place] < seconds[place - 1] * (1 - 1e-9):
            return f"{reported[place]} is faster than {reported[place - 1]}, which comes before it."
    return None


def _draw(rng: Random) -> list[Case]:
    cases: list[Case] = []
    for num_gpus, layers, heads, sequences in ((64, 48, 32, 256), (16, 24, 16, 64), (256, 64, 64, 512)):
        case = {
            "model": drawn_model(rng, layers, heads),
            "num_gpus": num_gpus,
            "sequences": sequences,
            "gpu": drawn_gpu(rng),
        }
        cases += [case | {"layout": layout, "part": "step_seconds"} for layout in _layouts(case)]
        cases.append(case | {"part": "ranked"})
    alone = {"model": drawn_model(rng, 8, 8), "num_gpus": 1, "sequences": 4, "gpu": drawn_gpu(rng)}
    return [*cases, alone | {"layout": (1, 1, 1, 2), "part": "step_seconds"}]


PUBLIC = {"model": GPT, "num_gpus": 1024, "sequences": 1536, "gpu": H100}
CHECK = Check(
    exercise="week10.ranked",
    points=3,
    names=PARTS,
    public=(
        PUBLIC | {"layout": (8, 8, 16, 1), "part": "step_seconds"},
        PUBLIC | {"layout": (1, 1, 1024, 1), "sequences": 2048, "part": "step_seconds"},
        PUBLIC | {"layout": (2, 16, 4, 1), "num_gpus": 128, "part": "step_seconds"},
        PUBLIC | {"num_gpus": 64, "part": "ranked"},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    parts={"step_seconds": 2 / 3, "ranked": 1 / 3},
    hints=(
        "Start with one microbatch on one stage: its work, then its all-reduces. Then count how many slots follow.",
        "work = 6 * (parameters on the rank) * b * sequence / flops; an all-reduce sends 2(tp-1)/tp of 2*b*s*hidden.",
        "(m + pp - 1) * (work + tensor) + 6 bytes * (parameters on the rank) * (dp-1)/dp / link. The link is NVLink if "
        "tp * dp GPUs fit into a server, else per_server/tp network cards together, but no faster than NVLink.",
    ),
)
