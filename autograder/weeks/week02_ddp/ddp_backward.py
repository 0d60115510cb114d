"""Broadcast, hooks, buckets and overlap: one backward of data parallelism on a module that the check builds.

Gradients are compared with those of one process, within 1e-5. Overlap is checked from outside: every layer of the
module asks the supervisor for a key that its gradients need (`autograder.jobs.marked`). It gets the key when the
buckets before it have been sent, so a rank that waits in a hook never gets the next key.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, calls_of, size, whole_numbers, wrong_value
from autograder.checks.groups import members_of, working
from autograder.checks.packets import ObservedCall
from autograder.checks.training import failed, module, training_task, wrong_grads, wrong_weights
from autograder.jobs import trained
from autograder.jobs.marked import MARK_BYTES, set_keys
from autograder.weeks.week02_ddp.assign_buckets import expected_buckets
from autograder.weeks.week02_ddp.average_gradients import MASKED

GRADIENTS, OVERLAP = "gradients", "overlap"
TOLERANCE = 1e-5
ROWS = 3
TWO = {"microbatches": 2}


def _make_backward(case: Case, rng: Random) -> Task:
    members, widths = members_of(case), case["widths"]
    plans = {rank: _module(case, place, rng) for place, rank in enumerate(members)}
    batches = {rank: [_rows(rng, widths[0]) for _ in range(case["microbatches"])] for rank in members}
    first = trained.build_module(plans[members[0]])
    weights = {name: parameter.detach().clone() for name, parameter in first.named_parameters()}
    sizes = [weight.nbytes for weight in weights.values()]
    buckets = expected_buckets({"sizes": sizes, "bucket_bytes": case["bucket_bytes"]})
    payloads = [sum(sizes[number] for number in bucket) for bucket in buckets]
    keys = _keys(case, buckets, payloads, rng)
    return training_task(
        case,
        "start_and_backward",
        {rank: [plans[rank], batches[rank], buckets] for rank in members},
        dict.fromkeys(members, (weights, _mean_gradients(plans, batches, weights, keys))),
        keys=keys,
        buckets=buckets,
        payloads=payloads * case.get("calls", 1),
        weight_bytes=sum(sizes) * case.get("calls", 1),
    )


def _module(case: Case, place: int, rng: Random) -> dict[str, Any]:
    """The module of one rank. `case["orders"]` gives the order in which each rank's forward uses its layers."""
    kind = "marked-mlp" if case["part"] == OVERLAP else "mlp"
    sizes: dict[str, Any] = {"widths": case["widths"]}
    if "orders" in case:
        kind, sizes = "chain", {"width": case["widths"][0], "order": case["orders"][place]}
    return module(kind, seed=rng.randrange(1 << 30), whole=True, **sizes)


def _mean_gradients(
    plans: dict[int, dict], batches: dict[int, list[Tensor]], weights: dict[str, Tensor], keys: dict[str, Any] | None
) -> dict[str, Tensor]:
    """Compute in one process the mean over ranks of each rank's gradients, at these weights and with its keys."""
    means = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for rank, plan in plans.items():
        net = trained.build_module(plan | {"weights": weights})
        for number, rows in enumerate(batches[rank]):
            if keys is not None:
                begin = number * keys["layers"]
                set_keys(net, keys["keys"][rank][begin : begin + keys["layers"]])
            gradients = torch.autograd.grad(net(rows).sum(), list(net.parameters()))
            for mean, gradient in zip(means.values(), gradients, strict=True):
                mean.add_(gradient / len(plans))
    return means


def _rows(rng: Random, width: int) -> Tensor:
    return whole_numbers(rng, ROWS * width).clamp(-3, 3).reshape(ROWS, width)


def _judge_backward(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        waits = "Here a rank enters the next layer only while gradients are in flight: a hook that waits never ends.\n"
        return waits + problem if case["part"] == OVERLAP and problem == reply.report else problem
    num_ranks = len(working(task))
    for rank in working(task):
        reported, weights = reply.ranks[rank], task.expected[rank][0]
        if problem := _wrong_start(rank, reported, weights) or wrong_weights(rank, reported, weights):
            return f"{problem} All ranks must begin with the weights of the group's first rank."
    for rank in working(task):
        reported, grads = reply.ranks[rank], task.expected[rank][1]
        problem = wrong_grads(rank, reported, grads, relative=TOLERANCE)
        if num_ranks > 1:  # one rank sends nothing, and its sum is its mean
            problem = (
                _is_sum(rank, reported, grads, num_ranks)
                or problem
                or _wrong_calls(rank, reply, task.facts["payloads"], len(task.facts["buckets"]))
                or _starts_again(rank, reply, task.facts["weight_bytes"])
                or _other_marks(rank, reply, case)
            )
        if not problem and case["part"] == OVERLAP:
            problem = _no_overlap(rank, reply, case, task.facts["buckets"])
        if problem:
            return problem
    return None


def _wrong_start(rank: int, reported: dict[str, Any], weights: dict[str, Tensor]) -> str | None:
    """Compare a rank's weights after `same_start`, as returned by the function given on the page."""
    received = reported.get("value", {}).get("plain")
    if not isinstance(received, list | tuple) or len(received) != len(weights):
        return f"Rank {rank} does not return its weights after same_start."
    pairs = zip(received, weights.items(), strict=True)
    found = (wrong_value(rank, one, weight, f"the weight {name} after same_start") for one, (name, weight) in pairs)
    return next(filter(None, found), None)


def _starts_again(rank: int, reply: Reply, weight_bytes: int) -> str | None:
    """Report a rank that broadcasts more than all weights once per call of `same_start`."""
    calls = [call for call in _without_marks(reply, rank) if call.kind == "broadcast"]
    total = sum(call.payload_bytes for call in calls)
    if total <= weight_bytes:
        return None
    return f"Rank {rank} broadcasts {size(total)} where {size(weight_bytes)} are enough: only same_start broadcasts."


def _is_sum(rank: int, reported: dict[str, Any], grads: dict[str, Tensor], num_ranks: int) -> str | None:
    total = {name: grad * num_ranks for name, grad in grads.items()}
    if any(grad.any() for grad in grads.values()) and not wrong_grads(rank, reported, total, relative=TOLERANCE):
        return f"The gradients on rank {rank} are {num_ranks} times the mean: the sum over the ranks."
    return None


def _wrong_calls(rank: int, reply: Reply, payloads: list[int], num_buckets: int) -> str | None:
    """Expect one all-reduce per bucket, in the order of the buckets, and no other call except the first broadcast."""
    calls = sorted(_without_marks(reply, rank), key=lambda call: call.number)
    other = [call.kind for call in calls if call.kind not in ("broadcast", "all_reduce")]
    if other:
        return f"Rank {rank} calls {other[0]}; a broadcast before and one all_reduce per bucket are enough."
    reduced = [call.payload_bytes for call in calls if call.kind == "all_reduce"]
    if len(reduced) != len(payloads):
        counts = f"{len(reduced)} all-reduces where {len(payloads)} are expected"
        return f"Rank {rank} makes {counts}: one per bucket and step, in the last microbatch only."
    if _broadcasts_late([call.kind for call in calls], num_buckets):
        return f"Rank {rank} broadcasts after its first all_reduce. Broadcast the weights before the backward."
    if reduced != payloads:
        return f"Rank {rank} all-reduces {reduced} bytes, in this order, where the buckets have {payloads}."
    return None


def _broadcasts_late(kinds: list[str], num_buckets: int) -> bool:
    """Whether a broadcast comes after the first bucket of a step and before the next step."""
    reduced = [kinds[:place].count("all_reduce") for place, kind in enumerate(kinds) if kind == "broadcast"]
    return any(number % num_buckets or number == kinds.count("all_reduce") for number in reduced)


def _without_marks(reply: Reply, rank: int) -> list[ObservedCall]:
    """A rank's calls without the marks, the messages that hold layers back."""
    return [call for call in calls_of(reply, rank) if call.payload_bytes != MARK_BYTES]


def _other_marks(rank: int, reply: Reply, case: Case) -> str | None:
    """One-byte messages belong to the module. More than its layers send would mean a channel outside the buckets."""
    marks = [call.kind for call in calls_of(reply, rank) if call.payload_bytes == MARK_BYTES]
    held_back = (len(case["widths"]) - 2) * case["microbatches"] if case["part"] == OVERLAP else 0
    due = ["send"] * held_back * (case["ranks"] - 1) if rank == 0 else ["recv"] * held_back
    if reply.calls is None or marks == due:
        return None
    return f"Rank {rank} exchanges messages of one byte: send gradients only in buckets."


def _no_overlap(rank: int, reply: Reply, case: Case, buckets: list[list[int]]) -> str | None:
    """Check that each bucket is sent in the last microbatch before the backward reaches the layer before its gradients.

    Every layer asks the supervisor for its key, which records the all-reduces that were complete by then (`jobs.keys`).
    """
    num_layers, asked = len(case["widths"]) - 1, reply.asked[rank]
    if len(asked) != case["microbatches"] * num_layers:
        return f"On rank {rank}, the backward of each of the {case['microbatches']} microbatches must run exactly once."
    last = asked[-num_layers:]
    if last[0] > 0:
        return f"Rank {rank} all-reduces before the last microbatch: accumulate gradients first."
    for layer, begun, expected in zip(reversed(range(num_layers)), last, _expected(case, buckets), strict=True):
        if begun < expected:
            return (
                f"Right, but bucket {begun} of rank {rank} is not sent before the backward reaches layer {layer}; its "
                f"gradients were ready after layer {_lowest(buckets[: begun + 1])}. Send it from the hook of its last "
                "gradient."
            )
    return None


def _lowest(buckets: list[list[int]]) -> int:
    """The layer whose gradients complete these buckets. Each layer has two parameters."""
    return min(parameter // 2 for bucket in buckets for parameter in bucket)


def _expected(case: Case, buckets: list[list[int]]) -> list[int]:
    """How many buckets must have been sent when the last backward reaches each layer, last layer first."""
    complete = [_lowest(buckets[: number + 1]) for number in range(len(buckets))]
    return [sum(lowest > layer for lowest in complete) for layer in reversed(range(len(case["widths"]) - 1))]


def _keys(case: Case, buckets: list[list[int]], payloads: list[int], rng: Random) -> dict[str, Any] | None:
    """The keys by which layers multiply their gradients, for each rank, in the order in which they ask."""
    if case["part"] != OVERLAP:
        return None
    num_ranks, widths = case["ranks"], case["widths"][:0:-1]

    def key(width: int) -> Tensor:
        return torch.tensor([float(rng.randint(1, 3)) for _ in range(ROWS * width)]).view(ROWS, width)

    return {
        "keys": [[key(width) for width in widths * case["microbatches"]] for _ in range(num_ranks)],
        "due": [0] * (case["microbatches"] - 1) * len(widths) + _expected(case, buckets),
        "carried": [2 * (num_ranks - 1) * payload for payload in payloads],
        "layers": len(widths),
    }


def _draw_backward(rng: Random) -> list[Case]:
    """Buckets that end inside a layer, hold everything, one layer, or two layers. The first rank is not always 0.

    One group has one rank.
    """
    width = rng.randint(2, 5)
    layer = 4 * (width + 1) * width  # bytes
    gradients = [
        {"ranks": 4, "widths": [width] * 4, "microbatches": 3, "bucket_bytes": layer + 4 * width},
        {"ranks": 3, "widths": [3, width, 2], "microbatches": 1, "bucket_bytes": 10**6, "subgroup": [1, 2]},
        {"ranks": 2, "widths": [3, width, 2], **TWO, "bucket_bytes": 40, "subgroup": [1]},
    ]
    overlap = [
        {"ranks": 3, "widths": [width] * 6, "microbatches": 1, "bucket_bytes": 2 * layer},
        {"ranks": 2, "widths": [width] * 4, "microbatches": 3, "bucket_bytes": layer},
    ]
    return [case | {"part": GRADIENTS} for case in gradients] + [case | {"part": OVERLAP} for case in overlap]


CHECK = Check(
    exercise="week02.ddp-backward",
    points=4,
    names=("start_and_backward",),
    public=(
        {"ranks": 4, "widths": [3, 4, 2], "bucket_bytes": 40, "subgroup": [1, 3], "calls": 2, **TWO, "part": GRADIENTS},
        {"ranks": 2, "widths": [3] * 4, "bucket_bytes": 1, "orders": [[1, 0, 2], [2, 1, 0]], **TWO, "part": GRADIENTS},
        {"ranks": 2, "widths": [3, 4, 4, 2], "microbatches": 2, "bucket_bytes": 1, "part": OVERLAP},
        {"ranks": 1, "widths": [3, 2], "bucket_bytes": 1, **TWO, "part": GRADIENTS},
    ),
    draw=_draw_backward,
    make=_make_backward,
    judge=_judge_backward,
    masked=MASKED,
    timeout=20.0,
    parts={GRADIENTS: 0.5, OVERLAP: 0.5},
    trains=True,
    hints=(
        "same_start broadcasts. Then: all microbatches but the last, add hooks, the last backward, and only then wait.",
        "A hook records that its gradient has arrived. Send a bucket when it is full and those before it are sent.",
        "In the hook: work = all_reduce(flat, async_op=True). After the backward: work.wait(), / N, back into .grad.",
    ),
)
