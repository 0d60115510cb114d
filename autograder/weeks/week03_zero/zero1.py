"""ZeRO-1: the mean gradient of this rank's slice, its optimizer state, and a step of Adam on it.

A step is compared with one process that updates the whole vector: weights on all ranks, and every number of the state.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from shardlab.costs import traffic
from shardlab.model import adam

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    carried_too_little,
    size,
    touched_input,
    wrong_tensor,
    wrong_value,
)
from autograder.checks.groups import LARGE, dtype_of, members_of, working
from autograder.checks.shards import MASKED, drawn, padded, sent_otherwise, shapes_of, slices
from autograder.checks.training import any_peak_too_high, failed, training_task

VECTORS = ("master", "momentum", "variance")
LR = 0.02
MANY = 6_000_001  # parameters: 12 MB of weights, 72 MB of states, 18 MB for a quarter of them


def _make(case: Case, rng: Random) -> Task:
    return {"slice": _make_slice, "state": _make_state, "memory": _make_state, "step": _make_step}[case["part"]](
        case, rng
    )


def _make_slice(case: Case, rng: Random) -> Task:
    members = members_of(case)
    gradients = {rank: drawn(case, rng) for rank in members}
    total = [torch.stack(same).sum(0) for same in zip(*gradients.values(), strict=True)]
    mine = [part / len(members) for part in slices(total, len(members))]
    num_bytes = padded(total, len(members)).nbytes
    return training_task(
        case,
        "mean_slice",
        {rank: [gradients[rank]] for rank in members},
        {rank: mine[place] for place, rank in enumerate(members)},
        keeps_inputs=True,
        reports=(),
        sent_bytes=traffic.ring_reduce_scatter_bytes(len(members), num_bytes),
    )


def _make_state(case: Case, rng: Random) -> Task:
    members = members_of(case)
    weights = drawn(case, rng)
    states = [adam.new_state(part) for part in slices(weights, len(members))]
    return training_task(
        case,
        "zero1_state",
        {rank: [weights] for rank in members},
        {rank: states[place] for place, rank in enumerate(members)},
        reports=(),
        all_bytes=padded(weights, len(members)).nbytes,
    )


def _make_step(case: Case, rng: Random) -> Task:
    members = members_of(case)
    gradients = {rank: drawn(case, rng) for rank in members}
    mean = sum(padded(mine, len(members)).float() for mine in gradients.values()) / len(members)
    assert isinstance(mean, torch.Tensor)
    state = _some_state(mean, sum(torch.Size(shape).numel() for shape in shapes_of(case)), rng)
    before = [_cut(state, len(members), place) for place in range(len(members))]
    weights = _as_weights(state["master"], case)
    adam.update(state, mean, lr=LR)
    new_weights = _as_weights(state["master"], case)
    expected = {rank: (new_weights, _cut(state, len(members), place)) for place, rank in enumerate(members)}
    num_bytes = padded(weights, len(members)).nbytes
    return training_task(
        case,
        "mean_and_step",
        {rank: [weights, gradients[rank], before[place], LR] for place, rank in enumerate(members)},
        expected,
        reports=(),
        sent_bytes=traffic.zero_bytes(len(members), num_bytes, 1),
    )


def _some_state(like: torch.Tensor, num_elements: int, rng: Random) -> dict[str, Any]:
    """A state in the middle of training: masters between two bfloat16 numbers, and nonzero moments."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    numbers = torch.randn(3, like.numel(), generator=generator)
    numbers[:, num_elements:] = 0  # padding
    master, momentum, spread = numbers
    return {"master": master, "momentum": momentum, "variance": momentum**2 + spread**2, "step": rng.randint(1, 9)}


def _cut(state: dict[str, Any], num_ranks: int, place: int) -> dict[str, Any]:
    return {name: state[name].chunk(num_ranks)[place].clone() for name in VECTORS} | {"step": state["step"]}


def _as_weights(master: torch.Tensor, case: Case) -> list[torch.Tensor]:
    """The vector, converted to the dtype and the shapes of the model."""
    shapes = [torch.Size(shape) for shape in shapes_of(case)]
    sizes = [shape.numel() for shape in shapes]
    parts = master[: sum(sizes)].to(dtype_of(case)).split(sizes)
    return [part.clone().view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        return problem
    judges = {"slice": _judge_slice, "state": _judge_state, "memory": _judge_state, "step": _judge_step}
    return judges[case["part"]](case, task, reply)


def _judge_slice(case: Case, task: Task, reply: Reply) -> str | None:
    for rank in working(task):
        reported, expected = reply.ranks[rank], task.expected[rank]
        if problem := wrong_tensor(rank, reported, expected, what="the mean of its slice") or touched_input(
            rank, reported, task
        ):
            return problem
    expected = task.facts["sent_bytes"]
    return sent_otherwise(task, reply, expected, "(N-1)/N of the gradients: a reduce-scatter") or carried_too_little(
        reply, int(expected * len(working(task)) * 0.98)
    )


def _judge_state(case: Case, task: Task, reply: Reply) -> str | None:
    for rank in working(task):
        expected, reported = task.expected[rank], reply.ranks[rank]
        if problem := wrong_state(rank, reported.get("value", {}).get("plain"), expected):
            return problem
    if case["part"] == "memory" and (problem := _held_at_once(task, reply)):
        return problem
    return sent_otherwise(task, reply, 0, "every rank already has the weights that it slices")


def _held_at_once(task: Task, reply: Reply) -> str | None:
    """Check that no rank held the states of all slices at once.

    Correct answers peak at 32 MB: 18 of states and 12 of the flat vector, or 24 more if it is converted to float32
    before it is sliced. Wrong ones peak at 110 MB.
    """
    states = sum(task.expected[0][name].nbytes for name in VECTORS)
    why = "its own twelve bytes per parameter: a view of a longer vector keeps all of it alive"
    return any_peak_too_high(reply, 2 * (states + task.facts["all_bytes"]), why)


def wrong_state(rank: int, received: Any, expected: dict[str, Any]) -> str | None:
    """Check a rank's state: a dict of float32 tensors, no larger than its slice, with the right numbers."""
    if not isinstance(received, dict) or any(not isinstance(received.get(name), torch.Tensor) for name in VECTORS):
        return f"On rank {rank}, the state must be a dict with the tensors {', '.join(VECTORS)}, as in adam.new_state."
    held = sum(value.nbytes for value in received.values() if isinstance(value, torch.Tensor))
    most = sum(expected[name].nbytes for name in VECTORS)
    if held > most:
        return (
            f"Rank {rank} holds {size(held)} of optimizer state where {size(most)} are expected: 12 bytes for each of "
            f"the {expected['master'].numel()} parameters of its slice. Why does it keep the others'?"
        )
    for name in VECTORS:
        if problem := wrong_value(rank, received[name], expected[name], f"`{name}`", relative=1e-5):
            return problem
    return None if received.get("step") == expected["step"] else f"On rank {rank}, `step` is not {expected['step']}."


def _judge_step(case: Case, task: Task, reply: Reply) -> str | None:
    relative = 2.0**-8 if dtype_of(case) is torch.bfloat16 else 1e-5
    for rank in working(task):
        weights, state = task.expected[rank]
        args = reply.ranks[rank].get("args")
        if not isinstance(args, list | tuple) or len(args) != 4 or not isinstance(args[0], list | tuple):
            return f"Rank {rank} does not return the updated parameters."
        if problem := wrong_state(rank, args[2], state):
            return problem
        for place, (received, expected) in enumerate(zip(args[0], weights, strict=True)):
            if problem := wrong_value(rank, received, expected, f"parameter {place}", relative=relative):
                return problem
    expected = task.facts["sent_bytes"]
    why = "gradients out and weights back, 2(N-1)/N of the model, in the model's own dtype"
    return sent_otherwise(task, reply, expected, why) or carried_too_little(
        reply, int(expected * len(working(task)) * 0.98)
    )


def _draw(rng: Random) -> list[Case]:
    odd = {"ranks": 4, "numbers": 4 * rng.randint(5, 200) + 1, "dtype": "bfloat16"}
    some = {"ranks": 4, "numbers": 2 * rng.randint(10, 60) + 1, "subgroup": [1, 3]}
    large = {"ranks": 4, "numbers": LARGE + 4 * rng.randint(1, 24) + 3, "dtype": "bfloat16"}
    alone = {"ranks": 2, "numbers": rng.randint(10, 60), "subgroup": [1]}
    cases = [(part, case) for part in ("slice", "step") for case in (odd, some, alone)]
    return [case | {"part": part} for part, case in [*cases, ("state", some), ("state", alone), ("step", large)]]


CHECK = Check(
    exercise="week03.zero1",
    points=4,
    names=("mean_slice", "zero1_state", "mean_and_step"),
    public=(
        {"ranks": 4, "numbers": 1857, "dtype": "bfloat16", "subgroup": [1, 3], "part": "slice"},
        {"ranks": 4, "numbers": 1857, "dtype": "bfloat16", "part": "state"},
        {"ranks": 4, "numbers": MANY, "dtype": "bfloat16", "part": "memory"},
        {"ranks": 4, "numbers": 1857, "dtype": "bfloat16", "part": "step"},
        {"ranks": 1, "numbers": 1857, "dtype": "bfloat16", "part": "slice"},
        {"ranks": 1, "numbers": 1857, "dtype": "bfloat16", "part": "step"},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={"slice": 1 / 4, "state": 1 / 8, "memory": 1 / 8, "step": 1 / 2},
    trains=True,
    timeout=30.0,
    hints=(
        "Which slice of the vector is yours? Rank r of the group owns numbers r·P/N to (r+1)·P/N, padding included.",
        "For the mean of a slice: flatten and pad, dist.reduce_scatter_single(mine, flat, group=group), divide by N.",
        "For a step: adam.update(state, mean, lr=lr); all-gather state['master'] in the parameters' dtype into one "
        "vector; unflatten it and copy_ each part.",
    ),
)
