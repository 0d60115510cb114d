"""The norm of one model's gradients: some split over tp, some on every tensor-parallel rank, and all split over pp."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, calls_of, close, size, touched_input, trouble
from autograder.checks.groups import DTYPES
from autograder.checks.meshes import MASKED, grid_of, groups_by_rank, task_inputs

ALIKE = 1.1171875  # bfloat16 rounds the squares of 384 of these, and their norm, in one direction, whatever their signs
MOST_BYTES = 128  # one number per axis; the gradients are longer


def _make(case: Case, rng: Random) -> Task:
    grid, dtype = grid_of(case), DTYPES[case.get("dtype", "float32")]
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))

    def drawn() -> torch.Tensor:
        numbers = torch.randn(case["numbers"], generator=generator)
        numbers = numbers.sign() * ALIKE if case.get("alike") else numbers * case.get("scale", 1.0)
        return numbers.to(dtype)

    split = [True, False, False, True] if not case.get("by_hand") else [True, False]
    square, by_place = 0.0, {}
    for stage in range(grid.sizes["pp"]):
        whole = {number: drawn() for number, is_split in enumerate(split) if not is_split}
        for place in range(grid.sizes["tp"]):
            own = [drawn() if is_split else whole[number].clone() for number, is_split in enumerate(split)]
            if case.get("by_hand"):
                own = [torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])]
            by_place[stage, place] = own
            counted = [one for one, is_split in zip(own, split, strict=True) if is_split or place == 0]
            square += sum(float(one.double().square().sum()) for one in counted)
    args = []
    for rank in range(grid.world):
        place = grid.coordinates(rank)
        args.append([[one.clone() for one in by_place[place["pp"], place["tp"]]], split])
    made, mine = groups_by_rank(grid, {"tp_group": ("tp",), "pp_group": ("pp",)})
    return Task("whole_norm", grid.world, task_inputs(args, mine), [square**0.5] * grid.world, made, keeps_inputs=True)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank, expected in enumerate(task.expected):
        reported = reply.ranks[rank]
        norm = reported.get("value", {}).get("plain")
        norm = norm.item() if isinstance(norm, torch.Tensor) and norm.numel() == 1 else norm
        if not close(norm, expected, 1e-4):
            whole = f"the norm of the model's gradients is {expected:.6g}"
            return f"Rank {rank} returns {norm!r}, but {whole}, on every rank."
        if problem := touched_input(rank, {**reported, "shares_input": False}, task):
            return problem
        if (mine := sum(call.sent_bytes for call in calls_of(reply, rank))) > MOST_BYTES:
            return f"Rank {rank} sends {size(mine)}. How little do the other ranks need to know about its gradients?"
    return None


def _draw(rng: Random) -> list[Case]:
    def case(order: str, *sizes: int, **more: object) -> Case:
        return {"sizes": dict(zip(order.split("-"), sizes, strict=True)), "numbers": rng.randint(99, 700), **more}

    return [
        case("tp-dp-pp", 2, 1, 2),
        case("dp-pp-tp", 2, 1, 3),
        case("pp-tp-dp", 2, 2, 2),
        case("tp-dp-pp", 1, 2, 3),
        case("tp-pp-dp", 1, 1, 1),
        case("tp-dp-pp", 2, 1, 2, scale=1e-3),
    ]


CHECK = Check(
    exercise="week09.whole-norm",
    points=2,
    names=("whole_norm",),
    public=(
        {"sizes": {"tp": 2, "dp": 1, "pp": 1}, "numbers": 2, "by_hand": True},
        {"sizes": {"tp": 2, "dp": 2, "pp": 2}, "numbers": 100},
        {"sizes": {"tp": 4, "dp": 1, "pp": 1}, "numbers": 384, "dtype": "bfloat16", "alike": True},
        {"sizes": {"tp": 1, "dp": 1, "pp": 1}, "numbers": 100},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=(*MASKED, "shardlab.data_parallel"),
    timeout=30.0,
    hints=(
        "For every number of the model, ask how many ranks hold it, and how often you count it.",
        "Sum squares over tp and over pp. A gradient that is not split is on all ranks of tp_group and counts once; dp "
        "ranks hold copies of everything.",
        "In float32, sum the squares of the split gradients, and of the others only where dist.get_rank(tp_group) == "
        "0; "
        "all-reduce over tp_group, then over pp_group; then take the square root.",
    ),
)
