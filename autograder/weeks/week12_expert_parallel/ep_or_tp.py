"""The interview: 64 experts on 8 GPUs, spread or cut; five numbers that decide."""

from __future__ import annotations

from shardlab.costs.experts import expert_tensor_bytes, layer_exchange_bytes

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import formula_task, numbers_of, trouble_in_call

GPUS, EXPERTS, K, HIDDEN, WIDTH, TOKENS = 8, 64, 6, 2048, 1408, 4096
NAMES = (
    "the bytes that a GPU sends in a layer's forward with its experts spread, ep 8, uniform router",
    "the bytes that it sends with every expert cut in 8, tokens gathered before they are routed",
    "the smallest k with which the cut experts send less",
    "the rows of one expert's product, on average, when experts are spread",
    "the columns of one expert's first matrix that a GPU has when experts are cut",
)


def expected(case: Case) -> list[float]:
    """The numbers of NAMES: bytes, bytes, choices, rows, columns."""
    cut = expert_tensor_bytes(TOKENS, HIDDEN, GPUS)
    least = next(k for k in range(1, EXPERTS) if layer_exchange_bytes(TOKENS, k, HIDDEN, GPUS) > cut)
    spread = layer_exchange_bytes(TOKENS, K, HIDDEN, GPUS)
    return [spread, cut, least, GPUS * TOKENS * K / EXPERTS, WIDTH / GPUS]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = numbers_of(reply)
    if not isinstance(received, list | tuple) or len(received) != len(NAMES):
        return f"Return five numbers: {'; '.join(NAMES)}."
    for name, number, right in zip(NAMES, received, task.expected[0], strict=True):
        if not close(number, right, 2e-3):
            return f"{number!r} is not {name}."
    return None


CHECK = Check(
    exercise="week12.ep-or-tp",
    points=1,
    names=("ep_or_tp",),
    public=({},),
    draw=lambda rng: [{}],
    make=formula_task("ep_or_tp", (), expected),
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.costs",),
    hints=(
        "Spread: each token leaves once for each choice. Cut: each token goes to all other GPUs once, whatever it "
        "chooses, and the sums come back.",
        "Spread: 2 · (7/8) · T · k · h · 2 bytes. Cut: an all-gather and a reduce-scatter of 8 · T tokens, each sends "
        "7 · T · h · 2 bytes.",
        "The first grows with k, the second does not: equal at k = ____, and 'less' means strictly less. Rows: all "
        "choices of all 8 GPUs over 64 experts.",
    ),
)
