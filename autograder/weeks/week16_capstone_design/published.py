"""Predict a published step time from another one, within 10% of the measurement, and the same for made-up runs."""

from __future__ import annotations

from random import Random

from shardlab.costs.sizes import layout_sizes, model_sizes
from shardlab.costs.validation.published import read_runs

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week16_capstone_design._design import MASKED, Sizes, step_seconds, written

WITHIN = 0.10
A100 = {"nvlink": 2.3e11, "network": 2e10, "per_server": 8}
PAIRS = (  # (known run, run to predict), from arXiv 2104.04473, tables 1 and 2
    ("MEG21-T2-PTD-174.6B-384", "MEG21-T2-PTD-174.6B-1536"),
    ("MEG21-T2-PTD-174.6B-384", "MEG21-T1-145.6B"),
    ("MEG21-T1-145.6B", "MEG21-T2-PTD-174.6B-1536"),
    ("MEG21-T2-PTD-529.6B-1120", "MEG21-T1-529.6B"),
)


def as_sizes(name: str) -> Sizes:
    """A published run as dicts, as on the page, including its seconds."""
    run = next(run for run in read_runs() if run.id == name)
    sizes = {"model": model_sizes(run.model), "layout": layout_sizes(run.layout), "gpu": A100}
    return sizes | {"seconds": run.step_seconds}


def measured(known: str, asked: str) -> Case:
    run = as_sizes(asked)
    return {"known": as_sizes(known), "run": run, "seconds": run["seconds"], "what": f"{asked}, as published"}


def made_up(what: str, flops: float, nvlink: float = A100["nvlink"], **changes: int | bool) -> Case:
    """A run with a different layout or NVLink than a published one, on GPUs that achieve `flops`."""
    known = as_sizes(PAIRS[0][0])
    other = known | {"layout": known["layout"] | changes, "gpu": A100 | {"nvlink": nvlink}}
    seconds = [step_seconds(one["model"], one["layout"], one["gpu"] | {"flops": flops}) for one in (known, other)]
    return {"known": known | {"seconds": seconds[0]}, "run": other, "seconds": seconds[1], "what": what}


def _kinds(slow: float, fast: float, few: int, ranks: int, chunks: int) -> list[Case]:
    """Vary everything that determines a step: bubble, chunks, recomputation, tp, batch, gradients, links.

    Slow and fast GPUs alternate, so that no guessed speed fits both.
    """
    return [
        made_up(f"made up: {few} microbatches for 384", slow, m=few),
        made_up(f"made up: {12 * chunks} microbatches, {chunks} chunks", fast, m=12 * chunks, chunks=chunks),
        made_up("made up: no recomputation", slow, recompute=False),
        made_up("made up: tensor parallel 2, no pipeline", fast, tp=2, pp=1, m=48),
        made_up(f"made up: dp {ranks}, 4 sequences in a microbatch", slow, dp=ranks, b=4, m=24),
        made_up("made up: tensor parallel 8, one stage, two microbatches", fast, tp=8, pp=1, dp=64, m=2),
        made_up("made up: NVLink a tenth as fast", fast, A100["nvlink"] / 10),
    ]


def _make(case: Case, rng: Random) -> Task:
    asked = {name: value for name, value in case["run"].items() if name != "seconds"}
    arguments = [case["known"], asked]
    return Task(call="estimate", ranks=1, inputs=[[arguments]], expected=[case["seconds"]], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, right = numbers_of(reply), task.expected[0]
    if type(received) not in (int, float):
        return f"estimate must return the seconds per step as a number, not {received!r}."
    error = received / right - 1
    if abs(error) <= WITHIN:
        return None
    return (
        f"{case['what']}: {received:.4g} s has an error of {error:+.1%}; the limit is {WITHIN:.0%}. Layout: "
        f"{written(case['run']['layout'])}. Known: {case['known']['seconds']:.4g} s with "
        f"{written(case['known']['layout'])}."
    )


def _draw(rng: Random) -> list[Case]:
    """All published pairs, and every kind of made-up run on GPUs that achieve 50 to 70 or 180 to 220 TFLOP/s."""
    slow, fast = (rng.randint(*between) * 1e12 for between in ((50, 70), (180, 220)))
    return [*(measured(*pair) for pair in PAIRS), *_kinds(slow, fast, rng.randint(4, 12), rng.choice([2, 8, 32]), 4)]


CHECK = Check(
    exercise="week16.published",
    points=2,
    names=("estimate",),
    public=(*(measured(*pair) for pair in PAIRS[:2]), *_kinds(6e13, 2e14, 6, 16, 2)),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    hints=(
        "One number is unknown: the FLOP/s that these GPUs achieve. Compute it from the known run.",
        "seconds = a + c / flops. step_seconds with infinite flops gives a; with 1 FLOP/s it gives a + c.",
        "flops = (step_seconds(known, 1 FLOP/s) - a) / (known seconds - a); then call step_seconds for the other run.",
    ),
)
