"""A step with an offloaded optimizer: bytes on the GPU, on the host and on the link, and seconds, layer by layer."""

from __future__ import annotations

from random import Random

from shardlab.costs.memory.states import zero_state_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.checks.shards import TABLES_MASKED

NAMES = ("num_parameters", "backward_seconds", "link", "adam")
BF16 = 2


def offloaded(case: Case) -> list[float]:
    """[bytes on the GPU, on the host, on the link, seconds until the last new weights are back]."""
    states = zero_state_bytes(sum(case["num_parameters"]), 1, 0)
    ready = arrived = updated = back = 0.0
    for num, seconds in zip(case["num_parameters"], case["backward_seconds"], strict=True):
        ready += seconds
        arrived = max(arrived, ready) + BF16 * num / case["link"]
        updated = max(updated, arrived) + num / case["adam"]
        back = max(back, updated) + BF16 * num / case["link"]
    on_host = states.gradients + states.optimizer
    return [states.parameters, on_host, states.gradients + states.parameters, back]


def _draw(rng: Random) -> list[Case]:
    slow = {"link": 1e9, "adam": 4e9}  # the link is the slowest
    cases = [slow | _layers(rng, 5), {"link": 32e9, "adam": 1e9} | _layers(rng, 6)]  # the host is
    cases += [{"link": 64e9, "adam": 40e9} | _layers(rng, 7)]  # the backward is
    cases += [{"link": 10e9, "adam": 5e9} | _layers(rng, 12), slow | _layers(rng, 1)]
    return cases


def _layers(rng: Random, num_layers: int) -> Case:
    """Layers of very different sizes, so that each part waits for another one now and then."""
    return {
        "num_parameters": [rng.choice([1, 4, 30]) * rng.randint(10**7, 2 * 10**7) for _ in range(num_layers)],
        "backward_seconds": [round(rng.uniform(0.01, 0.2), 3) for _ in range(num_layers)],
    }


CHECK = Check(
    exercise="week04.offload",
    points=2,
    optional=True,
    names=("offload_step",),
    public=(
        {"num_parameters": [4, 4], "backward_seconds": [1.0, 1.0], "link": 8.0, "adam": 4.0},
        {"num_parameters": [100, 400, 100], "backward_seconds": [1.0, 2.0, 0.5], "link": 400.0, "adam": 100.0},
    ),
    draw=_draw,
    make=formula_task("offload_step", NAMES, offloaded),
    judge=judge_numbers(
        ("the bytes on the GPU", "the bytes on the host", "the bytes on the link", "the seconds of the step")
    ),
    program="without_ranks",
    masked=TABLES_MASKED,
    hints=(
        "16 bytes per parameter are on one side or the other. On the link there are bf16 numbers in both directions.",
        "Follow one layer: gradient ready, arrived, updated, back. Each stage handles one layer at a time, in order.",
        "arrived = max(arrived, ready) + 2 * n / link: a layer starts when it and the link are both ready. The same "
        "pattern gives `updated` and `back`.",
    ),
)
