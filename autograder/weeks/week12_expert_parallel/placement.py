"""The challenge: place copies of hot experts so that GPUs are even to 5%, with most experts on their home node."""

from __future__ import annotations

from random import Random
from typing import Any

from shardlab.expert_parallel.placement import packed

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call

BALANCE, HOME = "balance", "home"
MOST_OVER_MEAN, MOST_AWAY = 1.05, 1 / 8
PUBLISHED = {"experts": 256, "groups": 8, "nodes": 4, "gpus": 8, "places": 9, "skew": 1.0, "seed": 40}


def drawn_loads(case: Case, rng: Random) -> list[float]:
    """Zipf loads with the case's skew, shuffled by the case's seed: only the scale is random, not the difficulty."""
    factor = rng.uniform(500, 2000) if case.get("scaled") else 1000
    loads = [factor * (rank + 1) ** -case["skew"] for rank in range(case["experts"])]
    Random(case["seed"]).shuffle(loads)
    return loads


def homes_of(case: Case, loads: list[float]) -> list[int]:
    """The node of each expert: groups of adjacent experts, packed onto nodes by load, for node-limited routing."""
    size = case["experts"] // case["groups"]
    of_groups = [sum(loads[first : first + size]) for first in range(0, len(loads), size)]
    node_of = {group: node for node, pack in enumerate(packed(of_groups, case["nodes"])) for group in pack}
    return [node_of[expert // size] for expert in range(len(loads))]


def imbalance(gpus: list[list[int]], loads: list[float]) -> float:
    """The fullest GPU's load divided by the mean; copies of an expert share its load evenly."""
    copies = [0] * len(loads)
    for expert in (one for gpu in gpus for one in gpu):
        copies[expert] += 1
    by_gpu = [sum(loads[one] / copies[one] for one in gpu) for gpu in gpus]
    return max(by_gpu) * len(by_gpu) / sum(by_gpu)


def num_away(gpus: list[list[int]], homes: list[int], gpus_per_node: int) -> int:
    """The number of places that hold an expert of another node."""
    return sum(homes[one] != gpu // gpus_per_node for gpu, mine in enumerate(gpus) for one in mine)


def _make(case: Case, rng: Random) -> Task:
    loads = drawn_loads(case, rng)
    homes = homes_of(case, loads)
    inputs = [[[loads, homes, case["places"], case["gpus"]]]]
    return Task(call="place", ranks=1, inputs=inputs, expected=[(loads, homes)], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    loads, homes = task.expected[0]
    num_gpus, gpus = case["nodes"] * case["gpus"], numbers_of(reply)
    if problem := _not_a_placement(gpus, num_gpus, case["places"], len(loads)):
        return problem
    ratio, away = imbalance(gpus, loads), num_away(gpus, homes, case["gpus"])
    if ratio > MOST_OVER_MEAN:
        return (
            f"The fullest of {num_gpus} GPUs has {ratio:.3f} times the mean load; the target is {MOST_OVER_MEAN}. "
            "Which experts have copies, and which GPU has several of the hottest copies?"
        )
    num_places = num_gpus * case["places"]
    if case["part"] == HOME and away > MOST_AWAY * num_places:
        return (
            f"The load is even ({ratio:.3f} times the mean), but {away} of {num_places} places hold an expert of "
            f"another node; at most {int(MOST_AWAY * num_places)} may. How much load must leave the fullest node, and "
            "which copies should you move?"
        )
    return None


def _not_a_placement(gpus: Any, num_gpus: int, places: int, num_experts: int) -> str | None:
    """The problem if this is not a list of `places` experts per GPU that contains every expert."""
    if not isinstance(gpus, list | tuple) or len(gpus) != num_gpus:
        return f"Return one list for each of {num_gpus} GPUs, with the GPUs of node 0 first."
    for gpu, mine in enumerate(gpus):
        if not isinstance(mine, list | tuple) or len(mine) != places:
            return f"GPU {gpu} must have a list of {places} experts; no place may be empty."
        if not all(type(one) is int and 0 <= one < num_experts for one in mine):
            return f"GPU {gpu} has {list(mine)[:8]}: use expert numbers from 0 to {num_experts - 1}."
    if missing := set(range(num_experts)) - {one for mine in gpus for one in mine}:
        return f"Expert {min(missing)} is on no GPU, so its tokens cannot be processed. {len(missing)} are missing."
    return None


def _draw(rng: Random) -> list[Case]:
    """Few extra places and many, nodes of 4 and of 8 GPUs, steep loads and flat ones."""

    def case(part: str, seed: int, skew: float, nodes: int, places: int, experts: int = 256) -> Case:
        shape = {"experts": experts, "groups": 2 * nodes, "nodes": nodes, "gpus": 8, "places": places}
        return shape | {"skew": skew, "seed": seed, "scaled": True, "part": part}

    return [
        case(BALANCE, 1, 1.0, 4, 10),
        case(BALANCE, 2, 0.5, 4, 9),
        case(BALANCE, 3, 1.0, 2, 10, experts=128),
        case(HOME, 4, 1.0, 4, 10),
        case(HOME, 5, 0.8, 4, 10),
        case(HOME, 6, 1.0, 2, 10, experts=128),
    ]


CHECK = Check(
    exercise="week12.placement",
    points=3,
    optional=True,
    names=("place",),
    public=(
        {"experts": 8, "groups": 4, "nodes": 2, "gpus": 2, "places": 4, "skew": 0.0, "seed": 0, "part": BALANCE},
        PUBLISHED | {"part": BALANCE},
        PUBLISHED | {"part": HOME},
        PUBLISHED | {"places": 10, "seed": 41, "part": HOME},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.expert_parallel",),
    parts={BALANCE: 1 / 3, HOME: 2 / 3},
    timeout=20.0,
    hints=(
        "First decide the number of copies, then the places. Always give the next copy to the expert whose copies have "
        "the highest load. Then place the heaviest copy first, on the lightest GPU with a free place.",
        "For the second part, put all copies on their home node. Then, while the heaviest node is above 1.02 times the "
        "mean, swap its hottest copy with the ____ copy of the lightest node. A few swaps are enough.",
        "Then pack each node's copies onto its own GPUs: sort by load / copies, heaviest first, and use the lightest "
        "GPU with fewer than `places_per_gpu`. Before that, nodes with too many copies give some away.",
    ),
)
