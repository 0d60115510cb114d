"""The hunt: which axis has the bug, and which kinds of weights are wrong? Six public bugs and one healthy step."""

from __future__ import annotations

from random import Random

from shardlab.hybrid.suspects import EXPERTS, FAULTS, LAST, MEANS, NORMS, NOTHING, REPLICAS, TIED

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of
from autograder.weeks.week15_capstone_build import _suspects

ALL = ["dense", "expert", "norm", "tied"]
CULPRITS: dict[str, tuple[str | None, list[str]]] = {
    NOTHING: (None, []),
    NORMS: ("tp", ["norm"]),
    EXPERTS: ("ep", ["expert"]),
    MEANS: ("cp", ALL),
    TIED: ("pp", ["tied"]),
    LAST: ("pp", ALL),
    REPLICAS: ("dp", ALL),
}
SUSPECTS = (NOTHING, *FAULTS)


def _make(case: Case, rng: Random) -> Task:
    fault, model = SUSPECTS[case["suspect"]], _suspects.model(rng)
    axis, table, exact = CULPRITS[fault][0], {}, {}
    for mesh in _suspects.meshes():
        size = getattr(mesh, axis) if axis else 1  # the other axes change nothing
        if size not in exact:
            exact[size] = _suspects.exact_gradients(model, mesh, fault)
        found = list(_suspects.rounded(exact[size], rng).items())
        rng.shuffle(found)
        table[_suspects.key(mesh)] = dict(found)
    return Task("culprit_in", 1, [[[table]]], [CULPRITS[fault]], [])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, (axis, kinds) = value_of(reply), task.expected[0]
    who = f"Suspect {case['suspect']}"
    if not isinstance(received, list | tuple) or len(received) != 2 or not isinstance(received[1], list | tuple):
        return "Return an axis, or None, and a list of kinds."
    if received[0] != axis:
        if axis is None:
            return f"{who} has no bug, but you accused {received[0]!r}: how far may two correct sums differ?"
        return f"{who}: you accused {received[0]!r}. Compare two meshes that differ in one axis only."
    if not all(isinstance(one, str) for one in received[1]) or sorted(received[1]) != kinds:
        return f"{who}: the axis is {axis}, but {list(received[1])} are not the kinds with wrong gradients."
    return None


def _draw(rng: Random) -> list[Case]:
    """Every suspect once, in random order, with fresh weights, tokens and layers."""
    order = list(range(len(SUSPECTS)))
    rng.shuffle(order)
    return [{"suspect": number} for number in order]


CHECK = Check(
    exercise="week15.which-axis",
    points=3,
    optional=True,
    names=("culprit_in",),
    public=tuple({"suspect": number} for number in range(len(SUSPECTS))),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.hybrid", "shardlab.train"),
    timeout=20.0,
    hints=(
        "One rank is right. Which mesh differs only in tp? And only in ep, which has no ranks of its own?",
        "ep = 2 needs dp = 2 (or cp = 2): compare with dp = 2, ep = 1. Numbers are wrong if they differ by more than "
        "rounding, relative to the model's largest gradient, because one of the gradients is zero.",
        "pairs = {axis: ({}, {axis: 2})}, and ep: ({dp: 2}, {dp: 2, ep: 2}). wrong = names where (a - b).abs().max() > "
        "1e-3 of the largest number; kinds = sorted({kind_of(name) for name in wrong}).",
    ),
)
