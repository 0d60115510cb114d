"""ZeRO-2: each gradient is reduce-scattered and freed inside the backward. The kernel's peak-memory mark proves it."""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs import traffic
from torch import nn

from autograder.checks.base import Case, Check, Reply, Task, wrong_value
from autograder.checks.groups import members_of, working
from autograder.checks.shards import MASKED, padded, rows_of, sent_otherwise, slices
from autograder.checks.training import any_peak_too_high, failed, holds_too_much, module, training_task
from autograder.jobs import trained

LARGE_WIDTHS = [512] * 33  # 32 weights of 1 MB each; each of eight ranks keeps 4 MB


def mean_gradients(net: nn.Module, inputs: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Compute in one process the mean over ranks of the gradients of each rank's mean square."""
    loss = sum(net(mine).square().mean() for mine in inputs) / len(inputs)
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    return {name: parameter.grad.detach() for name, parameter in net.named_parameters() if parameter.grad is not None}


def _make(case: Case, rng: Random) -> Task:
    members = members_of(case)
    plan = module("mlp", seed=rng.randrange(1 << 30), widths=case["widths"])
    inputs = {rank: rows_of(rng, 4, case["widths"][0]) for rank in members}
    gradients = mean_gradients(trained.build_module(plan), list(inputs.values()))
    cut = {name: slices([gradient], len(members)) for name, gradient in gradients.items()}
    sizes = [padded([gradient], len(members)).nbytes for gradient in gradients.values()]
    return training_task(
        case,
        "mean_square_backward",
        {rank: [plan, inputs[rank]] for rank in members},
        {rank: {name: cut[name][place] for name in cut} for place, rank in enumerate(members)},
        reports=() if case["part"] == "memory" else ("grads",),
        reads_calls=case["part"] != "memory",
        sent_bytes=case.get("calls", 1) * traffic.ring_reduce_scatter_bytes(len(members), sum(sizes)),
        all_bytes=sum(sizes),
    )


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        return problem
    for rank in working(task):
        expected, reported = task.expected[rank], reply.ranks[rank]
        if problem := wrong_slices(case, rank, reported, expected):
            return problem
    if case["part"] == "memory" and (problem := held_at_once(task, reply)):
        return problem
    return sent_otherwise(task, reply, task.facts["sent_bytes"], "each gradient reduce-scattered once")


def wrong_slices(case: Case, rank: int, reported: dict, wanted: dict[str, torch.Tensor]) -> str | None:
    """Compare a list of slices with the expected ones, in order."""
    value = reported.get("value", {}).get("plain")
    if not isinstance(value, list | tuple) or len(value) != len(wanted):
        return f"On rank {rank}, return a list of {len(wanted)} slices."
    relative = 0.5 if case["part"] == "memory" else 1e-4  # in deep models some ReLU inputs are close to 0
    for received, (name, expected) in zip(value, wanted.items(), strict=True):
        if problem := wrong_value(rank, received, expected, f"the slice of {name}", relative=relative):
            return problem
    return None


def held_at_once(task: Task, reply: Reply) -> str | None:
    """Check that not all full gradients existed at once. Waiting for the last keeps them all, plus buffers for sums."""
    why = "less than all gradients together. When is each freed?"
    problem = any_peak_too_high(reply, 3 / 4 * task.facts["all_bytes"], why)
    return still_held(task, reply) or problem if problem or reply.loopback_bytes < 0 else None


def still_held(task: Task, reply: Reply) -> str | None:
    """Report a rank that still has gradients after the call. Also used where memory cannot be measured."""
    why = "because every rank keeps only its slice: set `.grad` to None"
    said = (holds_too_much(rank, reply.ranks[rank], {"gradients": 0}, why) for rank in working(task))
    return next(filter(None, said), None)


def _draw(rng: Random) -> list[Case]:
    odd = [2 * rng.randint(3, 9) + 1 for _ in range(3)]
    return [
        {"ranks": 3, "widths": [*odd, 2], "part": "slices"},
        {"ranks": 4, "widths": [5, 2, 1], "subgroup": [1, 2, 3], "part": "slices"},
        {"ranks": 2, "widths": [rng.randint(2, 6), 3, 1], "subgroup": [1], "part": "slices"},
    ]


CHECK = Check(
    exercise="week03.zero2",
    points=3,
    names=("mean_square_backward",),
    public=(
        {"ranks": 4, "widths": [7, 5, 3], "subgroup": [1, 3], "calls": 2, "part": "slices"},
        {"ranks": 8, "widths": LARGE_WIDTHS, "part": "memory"},
        {"ranks": 1, "widths": [3, 2], "part": "slices"},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={"slices": 1 / 2, "memory": 1 / 2},
    trains=True,
    timeout=40.0,
    hints=(
        "You have to act each time a gradient is complete, while the backward is still running.",
        "parameter.register_post_accumulate_grad_hook(f) calls f(parameter) at that moment, when .grad is set.",
        "In the hook: slices[parameter] = mean_slice([parameter.grad], group=group); parameter.grad = None. Remove the "
        "hooks after the backward.",
    ),
)
