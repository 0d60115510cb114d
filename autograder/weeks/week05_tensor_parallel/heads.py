"""Attention split by heads with few key and value heads, which are replicated on every rank with their gradients."""

from __future__ import annotations

from random import Random

from shardlab.costs.traffic import ring_all_reduce_bytes
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.groups import group_task, members_of
from autograder.weeks.week05_tensor_parallel._shared import (
    LAYERS_MASKED,
    group_size,
    normal,
    sent_too_little,
    sent_too_much,
    wrong_tensors,
)

TOLERANCE = 1e-9
NAMES = ("x", "queries", "keys", "values", "out")
FP64 = 8


def one_process(tensors: list[Tensor], gradient: Tensor, width: int) -> tuple[Tensor, list[Tensor]]:
    """Causal attention over [S, H] with every head, and the gradients of x and the four matrices."""
    leaves = [one.clone().requires_grad_() for one in tensors]
    x, queries, keys, values, out = leaves
    q, k, v = ((x @ weight).unflatten(1, (-1, width)).transpose(0, 1) for weight in (queries, keys, values))
    k, v = (one.repeat_interleave(len(q) // len(k), 0) for one in (k, v))
    y = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).flatten(1) @ out
    y.backward(gradient)
    return y.detach(), [leaf.grad for leaf in leaves if leaf.grad is not None]


def _make(case: Case, rng: Random) -> Task:
    members, width = members_of(case), case["width"]
    sequence, hidden, own = case["sequence"], case["hidden"], case["heads"] * width // len(members)
    whole = [
        normal(rng, sequence, hidden),
        *(normal(rng, hidden, n * width) / hidden**0.5 for n in (case["heads"], case["kv_heads"], case["kv_heads"])),
        normal(rng, case["heads"] * width, hidden) / (case["heads"] * width) ** 0.5,
    ]
    gradient = normal(rng, sequence, hidden)
    output, gradients = one_process(whole, gradient, width)
    args, expected = {}, {}
    for place, rank in enumerate(members):
        args[rank] = [*_parts(whole, own, place), gradient.clone(), width]
        named = zip(NAMES, _parts(gradients, own, place), strict=True)
        expected[rank] = {"the output": output, **{f"the gradient of {name}": one for name, one in named}}
    return group_task(case, "attention_step", args, expected, keeps_inputs=True)


def _parts(tensors: list[Tensor], own: int, place: int) -> list[Tensor]:
    """A rank's columns of queries and rows of out, and all of x, keys and values."""
    x, queries, keys, values, out = tensors
    cut = queries.split(own, 1)[place], keys, values, out.split(own, 0)[place]
    return [one.clone() for one in (x, *cut)]


def budget(case: Case) -> tuple[float, float]:
    """Bytes that a rank sends for activations, and for the gradients of keys and values."""
    num_ranks, activation = group_size(case), FP64 * case["sequence"] * case["hidden"]
    shared = FP64 * case["hidden"] * case["kv_heads"] * case["width"]
    return 2 * ring_all_reduce_bytes(num_ranks, activation), 2 * ring_all_reduce_bytes(num_ranks, shared)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := wrong_tensors(task, reply, relative=TOLERANCE):
        return problem
    activations, weights = budget(case)
    why = "two all-reduces of an activation, and one each for the gradients of keys and values"
    return sent_too_much(task, reply, activations + weights, why) or sent_too_little(task, reply, activations, why)


def _draw(rng: Random) -> list[Case]:
    """Fewer key heads than ranks; more, but not divisible by them; one for all; a part of the world; one rank."""

    def case(ranks: int, heads: int, kv_heads: int, **more: object) -> Case:
        hidden = rng.randint(5, 9)
        sizes = {"width": rng.choice([2, 3, 4]), "hidden": hidden, "sequence": 2 * hidden + rng.randint(0, 4)}
        return {"ranks": ranks, "heads": heads, "kv_heads": kv_heads, **sizes, **more}

    return [
        case(4, 8, 2),
        case(3, 12, 4),
        case(4, 12, 3),
        case(3, 6, 1),
        case(4, 6, 2, subgroup=[0, 2, 3]),
        case(2, 4, 2, subgroup=[1]),
    ]


CHECK = Check(
    exercise="week05.heads",
    points=3,
    optional=True,
    names=("attention_step",),
    public=(
        {"ranks": 2, "heads": 2, "kv_heads": 1, "width": 2, "hidden": 4, "sequence": 8},
        {"ranks": 4, "heads": 6, "kv_heads": 3, "width": 2, "hidden": 6, "sequence": 14, "subgroup": [1, 3]},
        {"ranks": 4, "heads": 8, "kv_heads": 2, "width": 3, "hidden": 5, "sequence": 11},
        {"ranks": 1, "heads": 4, "kv_heads": 2, "width": 2, "hidden": 3, "sequence": 7},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=LAYERS_MASKED,
    timeout=15.0,
    hints=(
        "Write down which key head each of your query heads uses, for 6 query heads, 3 key heads and 2 ranks.",
        "Query head n of all heads uses key head n // (heads / kv_heads). Your first one is n = rank * own heads. The "
        "key and value matrices are replicated like x, but each rank's heads see only a part of their gradient. Which "
        "operator completes x's gradient?",
        "f on x, f on keys, f on values; select heads by an index, [:, needed]; attention; rows of out; g.",
    ),
)
