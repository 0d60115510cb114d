"""A layer whose experts are distributed over ranks: dispatch, experts, combine, weighted sums."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, trouble
from autograder.checks.groups import group_task, members_of
from autograder.weeks.week12_expert_parallel._shared import (
    EVEN,
    IDLE,
    MASKED,
    NUMBER,
    ONE,
    QUIET,
    arriving,
    choices,
    drawn,
    leaving,
    sends_too_much,
    traffic,
    with_gradients,
    wrong_tensors,
)

EXPERTS = "An expert's gradient includes the tokens of all ranks that sent it some; without any it is zero."
WHY = {
    "the output": "Does each row reach its expert, and does its result return to its token before the weighted sum?",
    "the gradient of x": "A token was copied k times: the gradients of its copies come back and are summed.",
    "the gradient of weights": "The router learns from this: are the rows that you weight still in the graph?",
    "the gradient of up": EXPERTS,
    "the gradient of down": EXPERTS,
}


def _make(case: Case, rng: Random) -> Task:
    members, own, hidden, width = members_of(case), case["own"], case["hidden"], 6
    experts = choices(case, rng)
    parts = [drawn(rng, len(one), hidden) for one in experts]
    weights = [drawn(rng, *one.shape).softmax(-1) for one in experts]
    up = drawn(rng, own * len(members), hidden, width) / hidden**0.5
    down = drawn(rng, own * len(members), width, hidden) / width**0.5
    gradients, outputs, of_x, of_weights, of_up, of_down = with_gradients(parts, experts, weights, up, down, rng)
    rows, args, expected, most = traffic(experts, own), {}, {}, {}
    for member, rank in enumerate(members):
        mine = slice(member * own, (member + 1) * own)
        held = [up[mine].clone(), down[mine].clone()]
        args[rank] = [parts[member], experts[member], weights[member], *held, gradients[member]]
        found = outputs[member], of_x[member], of_weights[member], of_up[mine].clone(), of_down[mine].clone()
        expected[rank] = dict(zip(WHY, found, strict=True))
        out, back = leaving(rows, member), arriving(rows, member)
        counts = NUMBER * own * len(members) ** 2
        most[rank] = 2 * (out + back) * 4 * hidden + out * NUMBER + 4 * counts + 64
    return group_task(case, "layer_step", args, expected, keeps_inputs=True, most=most)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply) or wrong_tensors(task, reply, WHY):
        return problem
    why = "use four all-to-alls of rows, two of them in the backward, and a number or two per row or expert"
    return sends_too_much(task, reply, task.facts["most"], why)


def _draw(rng: Random) -> list[Case]:
    """One expert per rank, and several; all to one; a rank without rows, or without tokens; part of the world."""

    def case(ranks: int, own: int, k: int, routing: str, **more: object) -> Case:
        sizes = {"tokens": rng.randint(9, 14), "hidden": 4 * rng.randint(8, 12)}
        return {"ranks": ranks, "own": own, "k": k, "routing": routing} | sizes | more

    return [
        case(3, 2, 3, EVEN),
        case(4, 1, 2, EVEN),
        case(4, 2, 1, ONE, subgroup=[0, 2, 3], special=rng.randint(0, 5)),
        case(3, 2, 2, IDLE, special=rng.randint(0, 2)),
        case(4, 2, 2, QUIET, subgroup=[1, 2, 3], special=rng.randint(0, 2)),
        case(2, 3, 2, EVEN, subgroup=[1]),
    ]


CHECK = Check(
    exercise="week12.layer",
    points=3,
    names=("layer_step",),
    public=(
        {"ranks": 2, "own": 1, "k": 1, "tokens": 9, "hidden": 32, "routing": EVEN},
        {"ranks": 4, "own": 2, "k": 2, "tokens": 9, "hidden": 32, "routing": IDLE, "special": 1, "subgroup": [1, 2, 3]},
        {"ranks": 3, "own": 2, "k": 2, "tokens": 9, "hidden": 32, "routing": QUIET, "special": 0},
        {"ranks": 1, "own": 2, "k": 2, "tokens": 9, "hidden": 32, "routing": EVEN},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=20.0,
    hints=(
        "The forward has three exchanges: rows to the experts, the expert numbers, and the results back. You choose "
        "the "
        "order of the rows, and undo it afterwards.",
        "order = experts.flatten().argsort(stable=True); row i is the token order[i] // ____; sent = the number of "
        "choices for each rank: bincount(experts.flatten() // len(up), minlength=____).",
        "rows, received = exchange(x[order // k], sent); numbers, _ = exchange(chosen % len(up), sent); back, _ = "
        "exchange(run_experts(...), received); then back[order.argsort()], as (T, k, H), times weights, summed.",
    ),
)
