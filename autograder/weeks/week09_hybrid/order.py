"""The order of the axes, innermost first: the seconds of each axis, by the link between the ranks of its group.

Llama 3's order is [TP, CP, PP, DP] (arXiv 2407.21783, section 3.3.2).
"""

from __future__ import annotations

from math import prod
from random import Random

from shardlab.costs.links import Links, group_of, ring_bandwidth

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import formula_task, numbers_of, shown, trouble_in_call
from autograder.checks.meshes import MASKED

NAMES = ("order", "sizes", "sent", "per_node", "nvlink", "network")
LLAMA3 = {"tp": 8, "cp": 16, "pp": 16, "dp": 8}  # its stage with 131,072 tokens, table 4
SENT = {"tp": 236.8e9, "cp": 23.8e9, "pp": 7.5e9, "dp": 12.1e9}


def seconds(case: Case) -> dict[str, float]:
    """Seconds of each axis: bytes over NVLink inside a node, else over the cards of the members on a node."""
    links, found = Links(case["nvlink"], case["network"], case["per_node"]), {}
    for place, name in enumerate(case["order"]):
        size = case["sizes"][name]
        stride = prod(case["sizes"][inner] for inner in case["order"][:place])
        found[name] = case["sent"][name] / ring_bandwidth(links, group_of(links, size, stride)) if size > 1 else 0.0
    return found


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = numbers_of(reply)
    if not isinstance(received, dict) or set(received) != set(case["order"]):
        return f"Return a dict with the keys {', '.join(case['order'])}."
    for name, expected in task.expected[0].items():
        if not close(received[name], expected):
            return (
                f"For ({shown(case)}), {received[name]!r} is not the seconds of {name}. Which ranks are in its group?"
            )
    return None


def case_of(order: list[str], sizes: dict[str, int], sent: dict[str, float], *links: float) -> Case:
    return dict(zip(NAMES, (order, sizes, sent, *links), strict=True))


def _draw(rng: Random) -> list[Case]:
    """Axes inside a node, over some cards of it, and over one; axes of size 1; nodes that are not powers of two."""
    cases = []
    for per_node, choices in ((8, (1, 2, 4, 8, 16)), (6, (2, 3, 6)), (4, (2, 4, 8)), (8, (2, 4))):
        order = rng.sample(list(LLAMA3), 4)
        sizes = {name: rng.choice(choices) for name in LLAMA3}
        sizes[order[0]] = choices[1]  # the innermost one leaves room in the node for others
        sent = {name: rng.randint(1, 300) * 1e9 if sizes[name] > 1 else 0.0 for name in LLAMA3}
        cases.append(case_of(order, sizes, sent, per_node, rng.randint(1, 9) * 1e11, rng.randint(1, 9) * 1e10))
    return cases


CHECK = Check(
    exercise="week09.order",
    points=2,
    names=("axis_seconds",),
    public=(
        case_of(["tp", "cp", "pp", "dp"], LLAMA3, SENT, 8, 4.5e11, 5e10),
        case_of(["cp", "tp", "pp", "dp"], LLAMA3, SENT, 8, 4.5e11, 5e10),
        case_of(["pp", "dp", "cp", "tp"], dict.fromkeys(LLAMA3, 2), SENT, 8, 4.5e11, 5e10),
    ),
    draw=_draw,
    make=formula_task("axis_seconds", NAMES, seconds),
    judge=_judge,
    program="without_ranks",
    optional=True,
    masked=MASKED,
    hints=(
        "Rank 0's group on an axis is 0, s, 2s, ..., where s is the product of the sizes of the axes further inside.",
        "Count the members with a rank below per_node. If that is all of them, the link is NVLink.",
        "Otherwise, each of them sends through its own card: min(nvlink, members * network). An axis of size 1: 0.",
    ),
)
