"""Gradients reduced in the backward with one call per layer. The model's head shares the embedding's weight."""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs import traffic
from torch import nn

from autograder.checks.base import Case, Check, Reply, Task, calls_of
from autograder.checks.groups import members_of, working
from autograder.checks.shards import MASKED, padded, sent_otherwise, slices
from autograder.checks.training import failed, module, training_task
from autograder.jobs import trained
from autograder.weeks.week03_zero.zero2 import held_at_once, mean_gradients, wrong_slices


def _make(case: Case, rng: Random) -> Task:
    members = members_of(case)
    vocabulary, width, num_blocks = case["model"]
    sizes = {"vocabulary": vocabulary, "width": width, "num_blocks": num_blocks}
    plan = module("language-model", seed=rng.randrange(1 << 30), **sizes)
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    tokens = {rank: torch.randint(vocabulary, (2, 5), generator=generator) for rank in members}
    by_layer = _by_layer(trained.build_module(plan), list(tokens.values()))
    cut = {layer: slices(tensors, len(members)) for layer, tensors in by_layer.items()}
    num_bytes = [padded(tensors, len(members)).nbytes for tensors in by_layer.values()]
    return training_task(
        case,
        "zero2_by_layer",
        {rank: [plan, tokens[rank]] for rank in members},
        {rank: {layer: cut[layer][place] for layer in cut} for place, rank in enumerate(members)},
        reports=(),
        reads_calls=case["part"] != "memory",
        sent_bytes=case.get("calls", 1) * traffic.ring_reduce_scatter_bytes(len(members), sum(num_bytes)),
        all_bytes=sum(num_bytes),
    )


def _by_layer(net: nn.Module, tokens: list[torch.Tensor]) -> dict[str, list[torch.Tensor]]:
    """The gradient of the embedding, which is also the head's, then those of each block."""
    layers: dict[str, list[torch.Tensor]] = {}
    for name, gradient in mean_gradients(net, tokens).items():
        place = name.split(".")
        layer = "the embedding" if place[0] == "embedding" else f"block {place[1]}"
        layers.setdefault(layer, []).append(gradient)
    return layers


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        return problem
    for rank in working(task):
        expected, reported = task.expected[rank], reply.ranks[rank]
        if problem := wrong_slices(case, rank, reported, expected):
            return problem
        most = case.get("calls", 1) * len(expected)
        if task.reads_calls and (num_calls := len(calls_of(reply, rank))) > most:
            enough = f"{most} are enough, one per step for each layer that has weights"
            return f"Rank {rank} makes {num_calls} calls where {enough}."
    if case["part"] == "memory" and (problem := held_at_once(task, reply)):
        return problem
    return sent_otherwise(task, reply, task.facts["sent_bytes"], "each layer reduce-scattered once")


def _draw(rng: Random) -> list[Case]:
    return [
        {"ranks": 3, "model": [rng.randint(7, 15), 5, 3], "part": "slices"},
        {"ranks": 4, "model": [11, 3, 1], "subgroup": [1, 3], "part": "slices"},
    ]


CHECK = Check(
    exercise="week03.tied",
    points=3,
    optional=True,
    names=("zero2_by_layer",),
    public=(
        {"ranks": 4, "model": [11, 3, 2], "subgroup": [0, 2, 3], "calls": 2, "part": "slices"},
        {"ranks": 8, "model": [1000, 192, 28], "part": "memory"},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={"slices": 2 / 3, "memory": 1 / 3},
    trains=True,
    timeout=40.0,
    hints=(
        "The shared weight has one gradient with two parts: one is ready at the beginning of the backward, one at its "
        "end. With which layer must you send it?",
        "Assign every weight to the first layer that has it; the head is left with nothing. Put one hook on each "
        "weight, and send a layer when all its gradients have arrived.",
        "waiting = [len(own) for own in layers]; in the hook of a weight of layer k: waiting[k] -= 1, and at 0 "
        "slices[k] = mean_slice([p.grad for p in layers[k]], group=group), then every .grad = None.",
    ),
)
