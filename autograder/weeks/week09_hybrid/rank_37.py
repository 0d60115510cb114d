"""The groups of rank 37 of 64, and which of them leave its node of eight."""

from __future__ import annotations

from shardlab.mesh import Mesh
from shardlab.mesh.nodes import position

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, numbers_of, trouble_in_call
from autograder.checks.meshes import MASKED

MESH, RANK, PER_NODE = Mesh(tp=8, pp=4, dp=2), 37, 8
AXES = ("tp", "dp", "pp")


def _expected(case: Case) -> dict[str, list]:
    found: dict[str, list] = {name: MESH.group_of(RANK, name) for name in AXES}
    return found | {"leaves": [name for name in AXES if position(found[name], PER_NODE).crosses]}


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    if not isinstance(received, dict) or set(received) != set(expected):
        return f"Return a dict with the keys {', '.join(expected)}."
    for key, right in expected.items():
        if not isinstance(received[key], list | tuple) or any(type(item) not in (int, str) for item in received[key]):
            return f"`{key}` must be a list."
        if sorted(map(str, received[key])) != sorted(map(str, right)):
            what = "the axes whose group leaves the node" if key == "leaves" else f"the {key} group of rank {RANK}"
            return f"{list(received[key])} is not {what}."
    return None


CHECK = Check(
    exercise="week09.rank-37",
    points=1,
    names=("groups_of_rank_37",),
    public=({},),
    draw=lambda rng: [{}],
    make=formula_task("groups_of_rank_37", (), _expected),
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    hints=(
        "The order is tp, dp, pp, innermost first: 8, 2 and 4 ranks.",
        "37 = 5 + 8 · 0 + 16 · 2: tp 5, dp 0, pp 2. Change one coordinate at a time.",
        "Ranks 32 to 39 are on node 4: which of your groups has a rank on another node?",
    ),
)
