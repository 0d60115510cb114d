"""The interview: 64 experts on 8 GPUs, with EP or TP; five numbers that decide."""

from __future__ import annotations

from shardlab.costs.experts import expert_tensor_bytes, layer_exchange_bytes

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import formula_task, numbers_of, trouble_in_call

GPUS, EXPERTS, K, HIDDEN, WIDTH, TOKENS = 8, 64, 6, 2048, 1408, 4096
NAMES = (
    "the bytes that a GPU sends in a layer's forward with EP = 8 and a uniform router",
    "the bytes that it sends with TP = 8, gathering tokens before routing",
    "the smallest k for which TP sends less",
    "the rows of one expert's matrix product, on average, with EP",
    "the columns of one expert's first matrix that a GPU has with TP",
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
        "EP: each token is sent once per choice. TP: each token is sent to all other GPUs once, for any choice, and "
        "the sums come back.",
        "EP: 2 · (7/8) · T · k · h · 2 bytes. TP: an all-gather and a reduce-scatter of 8 · T tokens; each sends "
        "7 · T · h · 2 bytes.",
        "The first grows with k and the second does not: they are equal at k = ____, and 'less' means strictly less. "
        "Rows: divide all choices of all 8 GPUs by 64 experts.",
    ),
)
