"""The whole trainer: losses and weights of a few SGD steps must match one process, and bytes the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from shardlab.costs import traffic
from shardlab.own import step_bytes
from shardlab.own.step_bytes import num_stages_of, stages_of
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, close, trouble
from autograder.weeks.week15_capstone_build import _trainer
from autograder.weeks.week15_capstone_build._one_process import OneProcess

WHY = {
    "norm": "Compare the gradients of one step, name by name, on a mesh of one axis.",
    "split": "Does a step read the sequences that one process reads?",
    "expert": "Do the routers' biases move by the loads of all ranks?",
}
BYTES = {
    "tp": "The bill, in the optional part, has the terms.",
    "cp": "The bill, in the optional part, has the terms.",
    "pp": "The bill, in the optional part, has the terms.",
    "dp": "The bill, in the optional part, has the terms.",
}


def _make(case: Case, rng: Random) -> Task:
    recipe = _trainer.recipe_of(case)
    weights = _trainer.fresh_weights(recipe, rng)
    text = _trainer.fresh_text(recipe, rng, recipe["batch"])
    whole = OneProcess(recipe, weights, text)
    everything = list(range(recipe["batch"]))  # one epoch per step, so that every reading order has the same gradient
    losses = [whole.step(everything) for _ in range(recipe["steps"])]
    args, expected, sent = [], [], []
    for place in _trainer.places(recipe):
        args.append([recipe, weights, text])
        stages = stages_of(recipe, place["pp"])
        blocks = [block for stage in stages for block in _trainer.blocks_of(recipe, num_stages_of(recipe), stage)]
        parts = _trainer.parts_of(whole.weights, blocks, place, recipe)
        expected.append((losses, parts))
        sent.append(_scaled(recipe, place, parts))
    return _trainer.task_of("trained", recipe, args, expected, sent)


def _scaled(recipe: dict[str, Any], place: dict[str, int], parts: dict[str, Tensor]) -> step_bytes.Sums:
    """Bytes of all steps. The experts' rows over ep are left out, because they depend on the reading order."""
    sums = step_bytes.Sums(recipe)
    one_step = step_bytes.sent_bytes(recipe, place, parts)
    sums.found = {axes: recipe["steps"] * num for axes, num in one_step.items()}
    if recipe["zero"] == 3:  # returning the weights gathers them once more
        copies = _trainer.grid_of(recipe | {"tp": 1, "pp": 1}).world
        total = sum(step_bytes.unit_bytes(recipe, parts).values())
        sums.add(step_bytes.COPIES, traffic.ring_all_gather_bytes(copies, total))
    return sums


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    recipe = _trainer.recipe_of(case)
    for rank, (losses, parts) in enumerate(task.expected):
        received = _trainer.returned(reply, rank)
        if not isinstance(received, list | tuple) or len(received) != 2 or not isinstance(received[0], list | tuple):
            return f"Rank {rank} must return a list of losses and its weights."
        if problem := _wrong_losses(rank, received[0], losses) or _wrong_weights(rank, received[1], parts):
            return problem
    return _trainer.wrong_bytes(recipe, task, reply, BYTES, unknown="ep")


def _wrong_losses(rank: int, received: Sequence[Any], losses: list[float]) -> str | None:
    if len(received) != len(losses):
        return f"Rank {rank} returns {len(received)} losses for {len(losses)} steps."
    for step, (mine, wanted) in enumerate(zip(received, losses, strict=True)):
        if not close(mine, wanted, _trainer.SAME):
            return f"On rank {rank} the loss of step {step} is {mine}; in one process it is {wanted:.6f}."
    return None


def _wrong_weights(rank: int, received: Any, parts: dict[str, Tensor]) -> str | None:
    if not isinstance(received, dict) or received.keys() != parts.keys():
        return f"Rank {rank} must have its parts of {', '.join(list(parts)[:3])}, … and no other weights."
    for name, wanted in parts.items():
        one = received[name]
        if not isinstance(one, Tensor) or one.shape != wanted.shape:
            return f"On rank {rank} the part of {name} must have the shape {list(wanted.shape)}."
        if not float((one - wanted).abs().max()) <= _trainer.SAME:
            off, why = float((one - wanted).abs().max()), WHY[step_bytes.kind_of(name)]
            return f"On rank {rank} {name} is off by {off:.0e} after the last step. {why}"
    return None


def _draw(rng: Random) -> list[Case]:
    few = {"hidden": 16, "layers": 2, "sequence": 16}  # keeps the packets of eight ranks few enough to read
    return _trainer.one_of_each(
        rng,
        {"seed": rng.randint(1, 99)},
        {"dp": 2, "pp": 2, "tp": 2, "seed": rng.randint(1, 99), **few},
        {"dp": 2, "cp": 2, "tp": 2, "zero": 1, **few},
        {"dp": 2, "pp": 2, "ep": 2, "experts": 4, **few},
        {"dp": 4, "zero": rng.choice((2, 3)), **few},
        {"dp": 2, "cp": 2, "zero": 3, **few},
    )


CHECK = Check(
    exercise="week15.loop",
    points=4,
    names=("new_trainer", "own_batch", "train_step", "trained"),
    public=(
        {},
        {"dp": 2},
        {"tp": 2, "pp": 2},
        {"cp": 2, "dp": 2, "zero": 3},
        {"dp": 2, "ep": 2, "experts": 4, "steps": 3},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=_trainer.MASKED,
    timeout=40.0,
    hints=(
        "The order is: the batch, the gradients, the total of tokens, the update, the biases. Which of these numbers "
        "must every rank of the mesh know, and which only some?",
        "Replicas are numbered over dp and ep: dp · ep_size + ep. Sum the number of valid tokens and the losses over "
        "`copies`; only the last stage has losses, so sum once more over ____.",
        "sums = ring_all_reduce(torch.tensor([loss, tokens], dtype=torch.float64), group=copies); update(trainer, "
        "gradients, tokens, float(sums[1])); return ring_all_reduce(sums[:1], group=pp) / sums[1].",
    ),
)
