"""Alpa's intra-operator pass: choose how each operator is sharded so that nodes and resharding cost the least.

The choice of an answer is priced, not compared: several may cost the same. Four operators are solved by brute force; on
a ladder of more (edges to the next operator and the one after), by dynamic programming over the last two choices.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call

SLACK = 1e-9
NAMES = ("node_costs", "edges")
Matrix = list[list[float]]
DIAMOND = {  # two matrix products that read the same input, and their sum; by hand on the page
    "node_costs": [[0, 1], [4, 2], [4, 2], [0, 3]],
    "edges": [[0, 1, [[0, 3], [3, 0]]], [0, 2, [[0, 3], [3, 0]]], [1, 3, [[0, 5], [5, 0]]], [2, 3, [[0, 5], [5, 0]]]],
}


def price(case: Case, choices: Any) -> float:
    """The cost of one choice per operator."""
    nodes = sum(costs[choice] for costs, choice in zip(case["node_costs"], choices, strict=True))
    return nodes + sum(matrix[choices[i]][choices[j]] for i, j, matrix in case["edges"])


def by_brute_force(case: Case) -> float:
    """The least cost, by pricing all choices."""
    return min(price(case, choices) for choices in product(*(range(len(costs)) for costs in case["node_costs"])))


def on_a_ladder(case: Case) -> float:
    """The least cost if every edge goes to the next operator or to the one after."""
    nodes, edge = case["node_costs"], {(i, j): matrix for i, j, matrix in case["edges"]}
    best = {
        (a, b): nodes[0][a] + nodes[1][b] + edge[0, 1][a][b]
        for a, b in product(range(len(nodes[0])), range(len(nodes[1])))
    }
    for k in range(2, len(nodes)):
        now: dict[tuple[int, int], float] = {}
        for ((a, b), cost), c in product(best.items(), range(len(nodes[k]))):
            more = cost + nodes[k][c] + edge[k - 1, k][b][c] + edge[k - 2, k][a][c]
            now[b, c] = min(more, now.get((b, c), more))
        best = now
    return min(best.values())


def _make(case: Case, rng: Random) -> Task:
    least = on_a_ladder(case) if len(case["node_costs"]) > 4 else by_brute_force(case)
    return Task(call="shardings", ranks=1, inputs=[[[case[name] for name in NAMES]]], expected=[least], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    choices, nodes = numbers_of(reply), case["node_costs"]
    if not isinstance(choices, list | tuple) or len(choices) != len(nodes):
        return f"Return one choice for each of the {len(nodes)} operators, as a list."
    if any(type(one) is not int or not 0 <= one < len(costs) for one, costs in zip(choices, nodes, strict=True)):
        return f"{list(choices)[:8]} is not a list of choices: operator 0 has the choices 0 to {len(nodes[0]) - 1}."
    paid = price(case, choices)
    if paid > task.expected[0] * (1 + SLACK):
        where = f" node_costs={nodes}, edges={case['edges']}" if len(nodes) <= 4 else ""
        return f"{list(choices)} costs {paid:g}; {task.expected[0]:g} is possible for {len(nodes)} operators.{where}"
    return None


def drawn(rng: Random, num: int, pairs: list[tuple[int, int]], most: int) -> Case:
    """Random costs; resharding costs nothing between equal shardings, as often in practice, but not always."""
    nodes = [[float(rng.randint(0, 20)) for _ in range(rng.randint(2, most))] for _ in range(num)]

    def matrix(rows: int, columns: int) -> Matrix:
        return [[0.0 if a == b and rng.random() < 0.7 else float(rng.randint(1, 20)) for b in range(columns)]
                for a in range(rows)]  # fmt: skip

    return {"node_costs": nodes, "edges": [[i, j, matrix(len(nodes[i]), len(nodes[j]))] for i, j in pairs]}


def _draw(rng: Random) -> list[Case]:
    """Chains, diamonds and complete graphs of four operators; two operators; a ladder of fourteen."""
    diamond, chain = [(0, 1), (0, 2), (1, 3), (2, 3)], [(0, 1), (1, 2), (2, 3)]
    whole = [(i, j) for j in range(4) for i in range(j)]
    ladder = [(i, j) for j in range(14) for i in (j - 2, j - 1) if i >= 0]
    graphs = [(4, diamond, 4), (4, diamond, 3), (4, chain, 4), (4, whole, 3), (2, [(0, 1)], 4), (14, ladder, 5)]
    return [drawn(rng, *graph) for graph in graphs]


CHECK = Check(
    exercise="week10.intra",
    points=3,
    names=("shardings",),
    public=(DIAMOND, drawn(Random(36), 4, [(0, 1), (1, 2), (0, 2), (2, 3)], 3)),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    optional=True,
    hints=(
        "One binary variable per operator and choice; those of an operator add up to 1.",
        "The cost of an edge multiplies two variables. Replace each product by its own binary variable: the row of an "
        "edge's variables for choice a adds up to operator i's variable for a, and the column for b to j's for b.",
        "model.minimize(sum(cost * variable ...)), then model.val(variable) is near 1 for what was chosen.",
    ),
)
