"""Ring attention, forward: blocks of keys and values go around the ring, and partial results give the whole softmax.

Only peak memory, as the kernel reports it, shows that a rank never holds all keys: in that case, keys are wide and
everything else is small.
"""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, carried_too_much, trouble
from autograder.checks.groups import POINT_TO_POINT, members_of, working
from autograder.checks.training import any_peak_too_high, training_task
from autograder.jobs import trained
from autograder.weeks.week14_long_context._shared import (
    CONTIGUOUS,
    MASKED,
    STRIPED,
    TOLERANCE,
    ZIG_ZAG,
    attention,
    no_ring,
    parts,
    sends_too_much,
    sequence,
    wrong_tensors,
)

VALUES, MEMORY = "values", "memory"
LONG = {
    "ranks": 6,
    "rows": 128,
    "heads": 2,
    "kv_heads": 2,
    "width": 8192,
    "value_width": 16,
    "layout": ZIG_ZAG,
    "part": MEMORY,
}
WHY = {
    "the output": "Do the weights of all blocks share one denominator? Which keys may a query at this position see?",
    "the log-sum-exp": "The sum is over all keys, on all ranks, that a query may see, and no others.",
}


def _make(case: Case, rng: Random) -> Task:
    q, k, v = sequence(case, rng)
    is_long = case["part"] == MEMORY
    exact = (q, k, v) if is_long else (q.double(), k.double(), v.double())
    output, lse = attention(*exact)
    args = parts(case, q, k, v)
    wanted = parts(case, output.float(), lse.float()[..., None])
    expected = {rank: {"the output": o, "the log-sum-exp": s[..., 0]} for rank, (o, s, _) in wanted.items()}
    block = sum(one.nbytes for one in args[members_of(case)[0]][1:3])
    return training_task(
        case,
        "ring_attention",
        args,
        expected,
        reports=(trained.RESULT_ALONE,) if is_long else (),
        reads_calls=not is_long,
        keeps_inputs=not is_long,
        block=block,
        positions=8 * case["rows"],
    )


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    relative = 1e-3 if case["part"] == MEMORY or "scale" in case else TOLERANCE  # large scores have fewer digits left
    if problem := trouble(reply, POINT_TO_POINT) or wrong_tensors(task, reply, WHY, relative=relative):
        return problem
    num_ranks = len(working(task))
    most = (num_ranks - 1) * (task.facts["block"] + task.facts["positions"])
    if case["part"] == VALUES:
        why = "send c - 1 blocks of keys and values, without a cast, and their positions"
        return no_ring(task, reply) or sends_too_much(task, reply, most, why)
    held = 3.5 * task.facts["block"] + 4 * 2**20  # two blocks, one whose sends are not yet freed, scaled queries
    why = "the current block and the incoming one: which older blocks do you still hold?"
    return carried_too_much(reply, int(num_ranks * most)) or any_peak_too_high(reply, held, why)


def _draw(rng: Random) -> list[Case]:
    """Each layout; heads that share keys; bfloat16; large scores; part of the world; one rank alone."""

    def case(ranks: int, layout: str, heads: int, kv_heads: int, **more: object) -> Case:
        sizes = {"rows": 2 * rng.randint(2, 6), "width": rng.choice([4, 6, 8]), "batch": rng.randint(1, 2)}
        return {"ranks": ranks, "layout": layout, "heads": heads, "kv_heads": kv_heads, "part": VALUES} | sizes | more

    return [
        case(3, CONTIGUOUS, 2, 2),
        case(4, ZIG_ZAG, 4, 1, dtype="bfloat16"),
        case(4, STRIPED, 4, 2, subgroup=[0, 2, 3]),
        case(4, ZIG_ZAG, 2, 2, batch=2),
        case(3, ZIG_ZAG, 2, 2, scale=100),
        case(2, CONTIGUOUS, 2, 1, subgroup=[1]),
    ]


CHECK = Check(
    exercise="week14.ring",
    points=3,
    names=("ring_attention",),
    public=(
        {"ranks": 2, "rows": 2, "heads": 1, "kv_heads": 1, "width": 4, "layout": CONTIGUOUS, "part": VALUES},
        {
            "ranks": 2,
            "rows": 2,
            "heads": 1,
            "kv_heads": 1,
            "width": 4,
            "layout": CONTIGUOUS,
            "scale": 100,
            "part": VALUES,
        },
        {
            "ranks": 4,
            "rows": 4,
            "heads": 4,
            "kv_heads": 2,
            "width": 4,
            "layout": ZIG_ZAG,
            "subgroup": [0, 2, 3],
            "dtype": "bfloat16",
            "part": VALUES,
        },
        {"ranks": 1, "rows": 2, "heads": 1, "kv_heads": 1, "width": 4, "layout": CONTIGUOUS, "part": VALUES},
        LONG,
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={VALUES: 2 / 3, MEMORY: 1 / 3},
    trains=True,
    timeout=60.0,
    hints=(
        "Combine two softmaxes over different keys into one: each is a weighted mean. What is the total weight of "
        "each?",
        "lse = logaddexp(lse_1, lse_2), and o = o_1 * exp(lse_1 - lse) + o_2 * ____. Start with the rank's own block, "
        "where every query sees a key.",
        "for _ in range(size - 1): start passing [k, v, positions] on; use the current block; wait; ____. Send the "
        "keys' "
        "positions with the keys.",
    ),
)
