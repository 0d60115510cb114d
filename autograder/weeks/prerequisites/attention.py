"""Attention of several heads with einsum."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, wrong_value
from autograder.checks.formulas import trouble_in_call, value_of


def _make(case: Case, rng: Random) -> Task:
    batch, queries, keys, heads, width = (case[name] for name in ("batch", "queries", "keys", "heads", "width"))
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))

    def drawn(length: int) -> torch.Tensor:
        return torch.randn(batch, length, heads, width, generator=generator)

    q, k, v = drawn(queries), drawn(keys), drawn(keys)
    by_query, by_key, values = (one.transpose(1, 2) for one in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(by_query, by_key, values).transpose(1, 2).contiguous()
    return Task(call="attention", ranks=1, inputs=[[[q, k, v]]], expected=[out], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    problem = wrong_value(0, value_of(reply), task.expected[0], "the output", relative=1e-4)
    return problem and f"With {case['queries']} queries and {case['keys']} keys: {problem.removeprefix('On rank 0, ')}"


def _draw(rng: Random) -> list[Case]:
    sizes = {"batch": rng.randint(1, 3), "heads": rng.randint(2, 4), "width": rng.choice((2, 8))}
    return [{**sizes, "queries": rng.randint(2, 5), "keys": rng.randint(6, 9)}, {**sizes, "queries": 1, "keys": 4}]


CHECK = Check(
    exercise="prerequisites.attention",
    points=1,
    names=("attention",),
    public=(
        {"batch": 1, "queries": 2, "keys": 2, "heads": 1, "width": 4},
        {"batch": 2, "queries": 3, "keys": 5, "heads": 2, "width": 4},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    hints=(
        "Which letters do scores and output share with q and k? Letters that are missing in the result are summed.",
        "Scores are [b, h, q, k]; divide by the square root of the width d, and take the softmax over k.",
        'scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / d**0.5; torch.einsum("bhqk,bkhd->bqhd", softmax, v).',
    ),
)
