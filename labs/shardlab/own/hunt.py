"""Plants public bugs in the learner's own trainer and returns the gradients of one step. For week 15.

    found = shardlab.run(step_with, "norms are partial", {"tp": 2}, ranks=2)
    joined(found)["0.up"]  # the gradient of the whole weight

Plants five of the six bugs in `shardlab.hybrid.suspects`; the sixth needs tied weights, which this model does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.own.saving import weights_of

NOTHING = "nothing"
NORMS, EXPERTS, MEANS = "norms are partial", "experts times ep", "a mean of means"
LAST, REPLICAS = "the last microbatch alone", "replicas are not told"
FAULTS = (NORMS, EXPERTS, MEANS, LAST, REPLICAS)
RECIPE: dict[str, Any] = {"layers": 2, "experts": 4, "heads": 2, "hidden": 16, "sequence": 16, "batch": 8, "lr": 1.0}


class Found(NamedTuple):
    """One rank's loss, gradients by name in the shapes of its parts of the weights, and coordinate on each axis."""

    loss: float
    gradients: dict[str, Tensor]
    places: dict[str, int]


def step_with(fault: str, sizes: dict[str, int]) -> Found:
    """Run one step on each rank of a mesh with one of FAULTS planted, or with NOTHING.

    At lr 1, SGD subtracts the gradient itself, so the change in the weights is the gradient. Raises ValueError for an
    unknown fault.
    """
    from mine import model, program, train

    if fault not in (*FAULTS, NOTHING):
        raise ValueError(f"{fault!r} cannot be planted: use one of {', '.join(FAULTS)}")
    recipe = program.recipe_of(RECIPE | sizes, dist.get_world_size())
    groups = program.groups_of(recipe)
    trainer = train.new_trainer(recipe, groups, model.new_weights(recipe), model.new_text(recipe))
    before = weights_of(trainer)
    with planted(fault, groups):
        loss = train.train_step(trainer, 0)
    gradients = {name: before[name] - after for name, after in weights_of(trainer).items()}
    return Found(loss, gradients, {axis: groups[axis].rank() for axis in program.AXES})


@contextmanager
def planted(fault: str, groups: dict[str, Any]) -> Iterator[None]:
    """Inside the `with` block, `mine.train` computes gradients with this bug."""
    from mine import ddp, pipeline, train

    space = train.update.__globals__  # where `update` looks up names, both the learner's and the course's version
    right, averaged, run_slots = space["finish_gradients"], ddp.ddp_backward, pipeline.run_slots

    def wrong_sums(gradients: list[Tensor], kinds: list[str], tokens: float, **over: Any) -> list[Tensor]:
        if fault == NORMS:
            kinds = ["split" if kind == "norm" else kind for kind in kinds]
        if fault == MEANS:
            valid, copies = torch.tensor(float(tokens)), over["copies"]
            dist.all_reduce(valid, group=copies)
            gradients = [one * (valid / (tokens * copies.size())) for one in gradients]
        factor = groups["ep"].size() if fault == EXPERTS else 1
        found = right(gradients, kinds, tokens, **over)
        return [one * factor if kind == "expert" else one for one, kind in zip(found, kinds, strict=True)]

    def last_microbatch(schedule: Any, forward: Any, weights: Any, like: list[Tensor], *, group: Any) -> Any:
        def dropped(stage: int, number: int, x: Tensor | None) -> Tensor:
            y = forward(stage, number, x)
            return y if y.dim() or number == len(like) - 1 else y.detach() + 0 * y

        return run_slots(schedule, dropped, weights, like, group=group)

    def no_average(losses: torch.nn.Module, microbatches: Sequence[int], buckets: Any, *, group: Any) -> None:
        for one in microbatches:
            losses(one).backward()

    space["finish_gradients"] = wrong_sums
    if fault == REPLICAS:
        ddp.ddp_backward = no_average
    if fault == LAST and groups["pp"].size() > 1:
        pipeline.run_slots = last_microbatch
    try:
        yield
    finally:
        space["finish_gradients"], ddp.ddp_backward, pipeline.run_slots = right, averaged, run_slots


def joined(found: Sequence[Found]) -> dict[str, Tensor]:
    """The whole model's gradients by name, joined from every rank's parts."""
    from mine import model

    whole: dict[str, dict[int, Tensor]] = {}
    for one in found:
        for name, part in one.gradients.items():
            axis = "ep" if ".expert." in name else "tp"
            whole.setdefault(name, {}).setdefault(one.places[axis], part)
    sides = {name: 0 if ".expert." in name else model.SPLIT_BY_TP.get(name.split(".", 1)[1]) for name in whole}

    def together(parts: dict[int, Tensor], side: int | None) -> Tensor:
        return parts[0] if side is None else torch.cat([parts[at] for at in sorted(parts)], side)

    return {name: together(parts, sides[name]) for name, parts in whole.items()}
