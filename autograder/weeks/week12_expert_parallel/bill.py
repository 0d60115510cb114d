"""The bytes of an all-to-all and of a layer's step, and on how many nodes a token's experts are."""

from __future__ import annotations

from random import Random

from shardlab.costs.experts import exchange_bytes, layer_exchange_bytes, nodes_of_token
from shardlab.costs.traffic import all_to_all_bytes

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import FORMULAS, formula_task, numbers_of, shown, trouble_in_call

SIZES = ("tokens", "k", "hidden", "ep", "experts", "nodes", "allowed")
NAMES = (
    "the bytes that a rank sends in one all-to-all",
    "the bytes that it sends in a layer's forward and backward",
    "the number of nodes that a token's experts are on, without a limit",
    "the number of nodes that they are on, if only `allowed` nodes may be used",
)
DEEPSEEK_V3 = {"tokens": 4096, "k": 8, "hidden": 7168, "ep": 64, "experts": 256, "nodes": 8, "allowed": 4}
EIGHT_GPUS = {"tokens": 2048, "k": 2, "hidden": 4096, "ep": 8, "experts": 8, "nodes": 2, "allowed": 1}


def expected(case: Case) -> list[float]:
    """The four numbers of NAMES: bytes, bytes, nodes, nodes."""
    tokens, k, hidden, ep = (case[name] for name in SIZES[:4])
    drawn_from = case["experts"], k, case["nodes"]
    return [
        all_to_all_bytes(ep, exchange_bytes(tokens, k, hidden)),
        2 * layer_exchange_bytes(tokens, k, hidden, ep),
        nodes_of_token(*drawn_from),
        nodes_of_token(*drawn_from, case["allowed"]),
    ]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = numbers_of(reply)
    if not isinstance(received, list | tuple) or len(received) != len(NAMES):
        return f"Return four numbers: {'; '.join(NAMES)}."
    for name, number, right in zip(NAMES, received, task.expected[0], strict=True):
        if not close(number, right):
            return f"For ({shown(case)}), {number!r} is not {name}."
    return None


def _draw(rng: Random) -> list[Case]:
    """One rank, two, and many; every choice on one node; as many choices as allowed experts."""

    def case(ep: int, k: int, each: int, nodes: int, allowed: int) -> Case:
        sizes = {"tokens": rng.randint(100, 9000), "hidden": 64 * rng.randint(4, 99)}
        return {**sizes, "k": k, "ep": ep, "experts": each * nodes, "nodes": nodes, "allowed": allowed}

    return [
        case(1, rng.randint(2, 4), 8, 1, 1),
        case(2, rng.randint(2, 6), rng.randint(6, 9), 2, 1),
        case(16, rng.randint(3, 8), 8 * rng.randint(2, 4), 4, 2),
        case(8, 8, 4, 8, 2),
    ]


CHECK = Check(
    exercise="week12.bill",
    points=1,
    names=("exchange_bill",),
    public=(DEEPSEEK_V3, EIGHT_GPUS),
    draw=_draw,
    make=formula_task("exchange_bill", SIZES, expected),
    judge=_judge,
    program="without_ranks",
    masked=(*FORMULAS, "shardlab.costs"),
    hints=(
        "How many rows does a rank have after each token has been copied once for each of its experts? Which fraction "
        "of them stays local?",
        "tokens · k · hidden · 2 bytes · (ep - 1)/ep. A layer does this for dispatch and combine, forward and "
        "backward. All k choices miss a node with probability C(E - E/N, k) / C(E, k).",
        "N · (1 - comb(E - E/N, k) / comb(E, k)). With a limit of M nodes, use the same formula for M nodes with "
        "M · E/N experts.",
    ),
)
