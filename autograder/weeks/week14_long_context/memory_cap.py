"""Attention over a long sequence under a memory cap, measured by the kernel: a ring, with tiles inside its blocks."""

from __future__ import annotations

from random import Random

from torch.nn.functional import scaled_dot_product_attention

from autograder.checks.base import Case, Check, Reply, Task, carried_too_much, trouble
from autograder.checks.groups import working
from autograder.checks.training import any_peak_too_high, training_task
from autograder.jobs import trained
from autograder.weeks.week14_long_context._shared import (
    CONTIGUOUS,
    MASKED,
    STRIPED,
    TOLERANCE,
    ZIG_ZAG,
    attention,
    parts,
    sends_too_much,
    sequence,
    wrong_tensors,
)

VALUES, MEMORY = "values", "memory"
CAP_BYTES = 16 * 2**20  # above the inputs; the scores of one block have 36 MiB, its keys and values 1.5
LONG = {"ranks": 4, "rows": 1536, "heads": 4, "kv_heads": 4, "width": 32, "layout": ZIG_ZAG, "part": MEMORY}
WHY = {"the output": "Does every query attend exactly once to each key that it may see?"}


def _make(case: Case, rng: Random) -> Task:
    q, k, v = sequence(case, rng)
    is_long = case["part"] == MEMORY
    if is_long:
        output = scaled_dot_product_attention(q, k, v, is_causal=True)  # four times 6144 x 6144 scores are 600 MB
    else:
        output = attention(q.double(), k.double(), v.double())[0].float()
    args = {rank: [*mine, CAP_BYTES] for rank, mine in parts(case, q, k, v).items()}
    expected = {rank: {"the output": mine[0]} for rank, mine in parts(case, output).items()}
    one = next(iter(args.values()))
    return training_task(
        case,
        "attend_under_cap",
        args,
        expected,
        reports=(trained.RESULT_ALONE,) if is_long else (),
        reads_calls=not is_long,
        keeps_inputs=not is_long,
        block=one[1].nbytes + one[2].nbytes + 8 * case["rows"],
    )


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    relative = 1e-3 if case["part"] == MEMORY else TOLERANCE
    if problem := trouble(reply) or wrong_tensors(task, reply, WHY, relative=relative):
        return problem
    num_ranks = len(working(task))
    most = (num_ranks - 1) * task.facts["block"]
    if case["part"] == VALUES:
        return sends_too_much(task, reply, most, "send c - 1 blocks of keys and values, and their positions")
    why = "which is the cap: how large is the largest tile of scores, and how many such tensors exist at once?"
    return carried_too_much(reply, int(num_ranks * most)) or any_peak_too_high(reply, CAP_BYTES, why)


def _draw(rng: Random) -> list[Case]:
    """Lengths that tiles do not divide, each layout, heads that share keys, part of the world, one rank."""

    def case(ranks: int, layout: str, heads: int, kv_heads: int, rows: int, **more: object) -> Case:
        sizes = {"rows": rows, "width": rng.choice([4, 8]), "batch": rng.randint(1, 2), "part": VALUES}
        return {"ranks": ranks, "layout": layout, "heads": heads, "kv_heads": kv_heads} | sizes | more

    return [
        case(3, ZIG_ZAG, 2, 2, 2 * rng.randint(70, 200)),
        case(4, STRIPED, 4, 2, 2 * rng.randint(10, 60) + 1, subgroup=[0, 2, 3]),
        case(4, CONTIGUOUS, 2, 1, rng.randint(3, 9), subgroup=[1, 3]),
        case(2, CONTIGUOUS, 2, 2, rng.randint(300, 500), subgroup=[1]),
    ]


CHECK = Check(
    exercise="week14.memory-cap",
    points=3,
    optional=True,
    names=("attend_under_cap",),
    public=(
        {"ranks": 2, "rows": 6, "heads": 1, "kv_heads": 1, "width": 4, "layout": ZIG_ZAG, "part": VALUES},
        {
            "ranks": 4,
            "rows": 150,
            "heads": 4,
            "kv_heads": 2,
            "width": 4,
            "layout": STRIPED,
            "subgroup": [0, 2, 3],
            "part": VALUES,
        },
        LONG,
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={VALUES: 1 / 3, MEMORY: 2 / 3},
    trains=True,
    timeout=60.0,
    hints=(
        "A query's output does not depend on other queries. So the ring's loop can process a few queries at a time "
        "with "
        "the current block.",
        "In each step of the ring, call block_attention for each tile of queries, then merge into these ____ of o and "
        "lse. A tile's scores have batch · heads · tile · s/c numbers, and about three such tensors exist at once.",
        "for at in range(0, rows, tile): now = slice(at, at + tile); merge o[:, :, now], lse[:, :, now] with "
        "block_attention(q[:, :, now], k, v, positions[now], k_positions).",
    ),
)
