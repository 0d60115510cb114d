"""The forward of a stage: losses and gradients must match one process, over tp, cp, ep and with ZeRO-3."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from shardlab.own import step_bytes
from torch import Tensor
from torch.nn import functional

from autograder.checks.base import Case, Check, Reply, Task, close, trouble
from autograder.weeks.week15_capstone_build import _trainer
from autograder.weeks.week15_capstone_build._one_process import OneProcess

WHY = {
    "norm": "The parts over tp and over the copies must add up to the whole gradient.",
    "split": "The parts over the copies must add up to the whole gradient.",
    "expert": "The parts over edp must add up to the whole gradient.",
}
BYTES = {
    "tp": "A block is gathered and scattered once.",
    "cp": "Only attention passes on keys and values.",
    "dp": "ZeRO-3 gathers a unit in the forward and once more in the backward; otherwise nothing is sent.",
}


def _make(case: Case, rng: Random) -> Task:
    recipe, num_stages = _trainer.recipe_of(case), case.get("stages", 1)
    weights, text = _trainer.fresh_weights(recipe, rng), _trainer.fresh_text(recipe, rng, recipe["batch"])
    losses, whole = _one_process(recipe, weights, text)
    args, expected, sent = [], [], []
    stages = [[stage, _trainer.blocks_of(recipe, num_stages, stage)] for stage in range(num_stages)]
    for rank, place in enumerate(_trainer.places(recipe)):
        rows, positions = _own_tokens(recipe, place)
        labels = torch.full_like(text, -100)
        labels[:, :-1] = text[:, 1:]
        batch = [one[rows][:, positions].contiguous() for one in (text, labels)]
        parts = _trainer.parts_of(weights, [block for _, own in stages for block in own], place, recipe)
        units = _trainer.units_of(parts, recipe, rank=rank)
        args.append([recipe, stages, units, _trainer.shapes_of(parts), [*batch, positions]])
        expected.append(float(losses[rows][:, positions].sum()))
        sums = step_bytes.Sums(recipe)
        step_bytes.add_passes(sums, place, parts, whole.chosen, recipe["batch"] // (recipe["dp"] * recipe["ep"]), 1)
        if recipe["zero"] == 3:
            step_bytes.add_sums(sums, parts, 1)
        sent.append(sums)
    return _trainer.task_of("loss_and_gradients", recipe, args, expected, sent, whole=whole)


def _one_process(recipe: dict[str, Any], weights: dict[str, Tensor], text: Tensor) -> tuple[Tensor, OneProcess]:
    """The loss of every token [B, S], and the model with the gradients of the sum."""
    leaves = {name: one.clone().requires_grad_() for name, one in weights.items()}
    whole = OneProcess(recipe, weights, text)
    logits = whole.logits(leaves, text)[:, :-1]
    losses = functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten(), reduction="none")
    losses.sum().backward()
    whole.gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    return functional.pad(losses.detach().view(len(text), -1), (0, 1)), whole


def _own_tokens(recipe: dict[str, Any], place: dict[str, int]) -> tuple[slice, Tensor]:
    """The sequences of a rank's replica, and the rank's positions under context parallelism."""
    num = recipe["batch"] // (recipe["dp"] * recipe["ep"])
    replica = place["dp"] * recipe["ep"] + place["ep"]
    chunks = torch.arange(recipe["sequence"]).chunk(2 * recipe["cp"])
    return slice(replica * num, (replica + 1) * num), torch.cat([chunks[place["cp"]], chunks[-1 - place["cp"]]])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    recipe, every = _trainer.recipe_of(case), [_trainer.returned(reply, rank) for rank in range(task.ranks)]
    for rank, received in enumerate(every):
        if not isinstance(received, list | tuple) or len(received) != 3:
            return f"Rank {rank} must return a loss, gradients and loads."
        loss = received[0].item() if isinstance(received[0], Tensor) and received[0].numel() == 1 else received[0]
        if not close(loss, task.expected[rank], _trainer.SAME):
            return f"On rank {rank} the sum of losses is {loss}; in one process it is {task.expected[rank]:.6g}."
    return _wrong_gradients(recipe, task, every) or _wrong_loads(recipe, task, every) or _bytes(recipe, task, reply)


def _bytes(recipe: dict[str, Any], task: Task, reply: Reply) -> str | None:
    return _trainer.wrong_bytes(recipe, task, reply, BYTES)


def _wrong_gradients(recipe: dict[str, Any], task: Task, every: list[Any]) -> str | None:
    """The complaint if the ranks' gradients do not add up to the whole gradient."""
    for rank, place in enumerate(_trainer.places(recipe)):
        blocks = [block for _, own in task.inputs[rank]["args"][1] for block in own]
        parts = _trainer.parts_of(task.facts["whole"].gradients, blocks, place, recipe)
        whole, found = _trainer.units_of(parts, recipe), {}
        for key, wanted in whole.items():
            adders = _trainer.adders(recipe, rank, key)
            num, ours = len(wanted) // (len(adders) if recipe["zero"] == 3 else 1), list[Tensor]()
            for other in adders:
                one = every[other][1].get(key) if isinstance(every[other][1], dict) else None
                if not isinstance(one, Tensor) or one.shape != (num,):
                    return f"Rank {other} has no gradient of {num} numbers for the unit {key!r}."
                ours.append(one)
            found[key] = len(adders) * torch.cat(ours) if recipe["zero"] == 3 else torch.stack(ours).sum(0)
        if problem := _trainer.wrong_units(rank, found, whole, "the gradient", WHY):
            return problem
    return None


def _wrong_loads(recipe: dict[str, Any], task: Task, every: list[Any]) -> str | None:
    """The complaint if the ranks together count different tokens per expert than one process."""
    for layer, chosen in task.facts["whole"].chosen.items():
        loads = torch.bincount(chosen.flatten(), minlength=recipe["experts"])
        found = [one[2].get(str(layer)) if isinstance(one[2], dict) else None for one in every]
        tensors = [one for one in found if isinstance(one, Tensor) and one.shape == loads.shape]
        if len(tensors) < len(found):
            return f"The load of layer {layer} must be a tensor of {len(loads)} counts."
        total = torch.stack(tensors).sum(0)
        if not torch.equal(total, loads):
            return f"All ranks together count {total.tolist()} in layer {layer}, not {loads.tolist()}."
    return None


def _draw(rng: Random) -> list[Case]:
    return _trainer.one_of_each(
        rng,
        {"stages": 1},
        {"tp": 2, "cp": 2, "stages": 2},
        {"cp": 2, "dp": 2, "zero": 3, "stages": 1},
        {"ep": 2, "experts": 4, "tp": 2, "stages": 2},
        {"dp": 3, "batch": 6, "zero": 3},
    )


CHECK = Check(
    exercise="week15.stage",
    points=3,
    names=("named", "run_block", "stage_output", "loss_and_gradients"),
    public=(
        {"stages": 1},
        {"tp": 2, "stages": 2},
        {"cp": 2, "stages": 1},
        {"ep": 2, "experts": 4, "stages": 1},
        {"dp": 2, "zero": 3, "stages": 1},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=_trainer.MASKED,
    timeout=30.0,
    hints=(
        "A stage is a loop over its blocks. Embed, a layer and last differ only in the function of mine.model that "
        "takes the weights.",
        "named: split the unit by the sizes of its shapes and view each part; the rest is padding. With ZeRO-3, call "
        "Gather.apply(unit, torch.Size([____]), group) first, inside the recomputed function.",
        "run_block: run(*tensors) makes the dict of weights from the units it receives and calls compute; with ZeRO-3 "
        "return recompute_function(run, torch.Generator(), *x, *units), else run(*x, *units).",
    ),
)
