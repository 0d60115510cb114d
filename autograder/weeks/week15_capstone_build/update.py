"""Sums, ZeRO and the optimizer: two steps with given gradients must match one process on every mesh."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from shardlab.costs import traffic
from shardlab.own import step_bytes
from shardlab.own.step_bytes import COPIES, EDP, FLOAT
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, trouble
from autograder.weeks.week15_capstone_build import _trainer
from autograder.weeks.week15_capstone_build.backward import is_averaged

STEPS = 2
WHY = {
    "norm": "Each tp rank has seen part of the positions. And divide by all valid tokens.",
    "split": "Which ranks have the same part and other tokens? Do you divide a mean over ranks by one rank's tokens?",
    "expert": "edp has the copies of an expert, but divide by all ranks' tokens.",
}
BYTES = {
    "tp": "Sum only the norms over tp, because only they are partial.",
    "dp": "ZeRO-0 sums; ZeRO-1 scatters a sum and gathers weights; ZeRO-2 gathers; DDP and ZeRO-3 send nothing.",
}
UNITS = {"0 norm": 0, "0 split": 1, "1 expert": 2, "last split": 3}


def _make(case: Case, rng: Random) -> Task:
    recipe, generator = _trainer.recipe_of(case), torch.Generator().manual_seed(rng.randrange(1 << 31))
    grid, every = _trainer.grid_of(recipe), _trainer.places(recipe)
    sizes = {
        key: case["numbers"] + 7 * at for key, at in UNITS.items() if recipe["experts"] or not key.endswith("expert")
    }
    padded = {key: -(-num // len(_trainer.sharers(recipe, 0, key))) for key, num in sizes.items()}
    padded = {key: num * len(_trainer.sharers(recipe, 0, key)) for key, num in padded.items()}
    tokens = {one: rng.randint(20, 60) for one in sorted({_replica(place) for place in every})}
    valid = sum(tokens.values())

    def drawn(num: int) -> Tensor:
        return torch.randn(num, generator=generator)

    start = _shared(recipe, padded, drawn)
    sums = [_shared_sums(recipe, padded, drawn) for _ in range(STEPS)]  # by rank and unit
    args, expected, sent = [], [], []
    for rank, place in enumerate(every):
        units = {key: start[rank][key] for key in padded}
        gradients = [
            {key: _given(recipe, rank, key, [one[other][key] for other in range(grid.world)]) for key in padded}
            for one in sums
        ]
        means = [{key: _whole(recipe, rank, key, one) / valid for key in padded} for one in sums]
        wanted = {key: _stepped(recipe, units[key], [mean[key] for mean in means]) for key in padded}
        if recipe["zero"] == 3:
            units, wanted = (
                {key: _slice(recipe, rank, key, one) for key, one in each.items()} for each in (units, wanted)
            )
        args.append([recipe, units, gradients, tokens[_replica(place)], float(valid)])
        expected.append(wanted)
        sent.append(_bytes_of(recipe, padded))
    return _trainer.task_of("after_updates", recipe, args, expected, sent)


def _replica(place: dict[str, int]) -> tuple[int, ...]:
    return tuple(place[axis] for axis in COPIES)


def _shared(recipe: dict[str, Any], padded: dict[str, int], drawn: Any) -> list[dict[str, Tensor]]:
    """Weights by rank; ranks that sum a gradient together have the same weights."""
    found: list[dict[str, Tensor]] = [{} for _ in range(_trainer.world_of(recipe))]
    for key, num in padded.items():
        for rank in range(len(found)):
            if key not in found[rank]:
                whole = drawn(num)
                for other in _trainer.adders(recipe, rank, key):
                    found[other][key] = whole
    return found


def _shared_sums(recipe: dict[str, Any], padded: dict[str, int], drawn: Any) -> list[dict[str, Tensor]]:
    """Gradients of each rank's own tokens, by rank and unit."""
    return [{key: 10 * drawn(num) for key, num in padded.items()} for _ in range(_trainer.world_of(recipe))]


def _whole(recipe: dict[str, Any], rank: int, key: str, own: list[dict[str, Tensor]]) -> Tensor:
    return torch.stack([own[other][key].double() for other in _trainer.adders(recipe, rank, key)]).sum(0)


def _given(recipe: dict[str, Any], rank: int, key: str, own: list[Tensor]) -> Tensor:
    """The gradient that `backward` leaves on a rank: its own sum or, with DDP, ZeRO-2 and 3, a mean over sharers."""
    if not is_averaged(recipe) and recipe["zero"] != 3:
        return own[rank]
    mean = torch.stack([own[other] for other in _trainer.sharers(recipe, rank, key)]).mean(0)
    return _slice(recipe, rank, key, mean) if recipe["zero"] else mean


def _slice(recipe: dict[str, Any], rank: int, key: str, flat: Tensor) -> Tensor:
    ranks = _trainer.sharers(recipe, rank, key)
    return flat.chunk(len(ranks))[ranks.index(rank)].clone()


def _stepped(recipe: dict[str, Any], start: Tensor, means: list[Tensor]) -> Tensor:
    """The unit after gradient descent, or Adam, with these gradients."""
    leaf = torch.nn.Parameter(start.double().clone())
    kind: Any = torch.optim.Adam if recipe["optimizer"] == "adam" else torch.optim.SGD
    optimizer = kind([leaf], lr=recipe["lr"])
    for mean in means:
        leaf.grad = mean
        optimizer.step()
    return leaf.detach().float()


def _bytes_of(recipe: dict[str, Any], padded: dict[str, int]) -> step_bytes.Sums:
    sums, zero = step_bytes.Sums(recipe), recipe["zero"]
    norms = sum(num for key, num in padded.items() if key.endswith("norm"))
    sums.add(("tp",), STEPS * traffic.ring_all_reduce_bytes(recipe["tp"], norms * FLOAT))
    times = 0 if zero == 3 or (is_averaged(recipe) and not zero) else 1 if zero == 2 else 2
    for axes in (COPIES, EDP):
        total = sum(num for key, num in padded.items() if key.endswith("expert") == (axes == EDP))
        sharers = torch.Size([recipe[axis] for axis in axes]).numel()
        sums.add(axes, STEPS * times * traffic.ring_all_gather_bytes(sharers, total * FLOAT))
    return sums


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank, wanted in enumerate(task.expected):
        if problem := _trainer.wrong_units(rank, _trainer.returned(reply, rank), wanted, "the numbers", WHY):
            return problem
    return _trainer.wrong_bytes(_trainer.recipe_of(case), task, reply, BYTES)


def _draw(rng: Random) -> list[Case]:
    def case(**sizes: Any) -> Case:
        return {"numbers": rng.randint(600, 900), "lr": rng.choice((0.5, 1.0, 2.0)), **sizes}

    return [
        case(),
        case(dp=3),
        case(tp=2, dp=2, cp=2),
        case(dp=2, ep=2, experts=4),
        case(tp=2, dp=2, ep=2, experts=4, zero=1),
        case(dp=2, cp=2, zero=2),
        case(dp=3, zero=3),
        case(dp=2, tp=2, zero=1, optimizer="adam", lr=0.01),
    ]


CHECK = Check(
    exercise="week15.update",
    points=4,
    names=("move", "update", "after_updates"),
    public=(
        {"numbers": 700, "lr": 1.0},
        {"numbers": 700, "lr": 1.0, "dp": 2},
        {"numbers": 700, "lr": 1.0, "tp": 2, "cp": 2},
        {"numbers": 700, "lr": 1.0, "dp": 2, "ep": 2, "experts": 4, "zero": 1},
        {"numbers": 700, "lr": 1.0, "dp": 2, "zero": 2},
        {"numbers": 700, "lr": 1.0, "dp": 2, "zero": 3},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=_trainer.MASKED,
    timeout=30.0,
    hints=(
        "Two questions for each unit: is its gradient a sum over this rank's tokens or a mean over the sharers, and "
        "which slice of the mean does zero1_step need?",
        "A mean over N ranks, divided by valid / N, is the sum divided by valid. Experts are shared by edp and have a "
        "different N. ZeRO-1: finish_gradients only over tp, with `alone` for copies and edp and ____ as its tokens; "
        "then mean_slice over the sharers.",
        "zero1_step over `alone` is a plain step: ZeRO-0 and 3 use it. With sgd, change state['master'] by -lr · mean "
        "yourself and pass zeros_like(mean), for which Adam changes nothing.",
    ),
)
