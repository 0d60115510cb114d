"""Two checks of training steps with right and wrong answers, built like the checks of later weeks.

At the end are two faulty checks that a matrix must find.
"""

from __future__ import annotations

from random import Random

import torch
from torch import nn

from autograder.checks.base import Case, Check, Reply, Task, trouble, wrong_tensor
from autograder.checks.groups import group_task, working
from autograder.checks.training import (
    failed,
    module,
    optimizer,
    peak_too_high,
    training_task,
    wrong_grads,
    wrong_weights,
)
from autograder.jobs import trained

WIDTHS = [6, 8, 2]
LARGE_WIDTHS = [768] * 9  # eight weights of 2.4 MB, two per rank
LR = 0.5
TIMEOUT = 30.0  # generous: speed is not tested here


def _rows(rng: Random, num_rows: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    return torch.randint(-3, 4, (num_rows, width), generator=generator).float()


def _named(net: nn.Module, part: str) -> dict[str, torch.Tensor]:
    return {name: getattr(p, part).detach().clone() for name, p in net.named_parameters()}


def _due(plan: dict, opt: dict, rows: list[torch.Tensor]) -> tuple[dict, dict]:
    """Gradients and weights after one step on all rows in one process; the loss averages over ranks, sums over rows."""
    net, stepper = trained.build([plan, opt])
    (sum(net(part).sum() for part in rows) / len(rows)).backward()
    grads = _named(net, "grad")
    stepper.step()
    return grads, _named(net, "data")


# ---- data parallelism ------------------------------------------------------------------------------------------------


def _make_data_parallel(case: Case, rng: Random) -> Task:
    ranks = range(case["ranks"])
    rows = [_rows(rng, 4, WIDTHS[0]) for _ in ranks]
    plans = [module("mlp", seed=rng.randrange(1 << 30), whole=True, widths=WIDTHS) for _ in ranks]  # all different
    opt = optimizer("SGD", of=0, lr=LR)
    due = _due(plans[0], opt, rows)
    args = {rank: [plans[rank], opt, rows[rank]] for rank in ranks}
    return training_task(case, "data_parallel_step", args, {rank: due for rank in ranks})


def _judge_data_parallel(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        return problem
    for rank in working(task):
        grads, weights = task.expected[rank]
        came = reply.ranks[rank]
        if problem := wrong_grads(rank, came, grads) or wrong_weights(rank, came, weights):
            return problem
    return None


DATA_PARALLEL = Check(
    exercise="sample.data-parallel-step",
    points=3,
    names=("data_parallel_step",),
    public=({"ranks": 2, "numbers": 4},),
    draw=lambda rng: [{"ranks": 4, "numbers": 4}],
    make=_make_data_parallel,
    judge=_judge_data_parallel,
    trains=True,
    timeout=TIMEOUT,
)

_BODY = """
def data_parallel_step(net, optimizer, rows, *, group):
    {broadcast}
    net(rows).sum().backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad, group=group)
        {mean}
    {step}
"""
_BROADCAST = "for p in net.parameters(): dist.broadcast(p.data, group_src=0, group=group)"
_MEAN = "parameter.grad /= dist.get_world_size(group)"
_BUCKET = """
def data_parallel_step(net, optimizer, rows, *, group):
    with torch.no_grad():
        flat = torch.nn.utils.parameters_to_vector(net.parameters())
        dist.broadcast(flat, group_src=0, group=group)
        torch.nn.utils.vector_to_parameters(flat, net.parameters())
    net(rows).sum().backward()
    bucket = torch.cat([p.grad.flatten() for p in net.parameters()]) / dist.get_world_size(group)
    dist.all_reduce(bucket, group=group)
    for p, part in zip(net.parameters(), bucket.split([p.numel() for p in net.parameters()])):
        p.grad.copy_(part.view_as(p))
    optimizer.step()
"""
DATA_PARALLEL_ANSWERS = {
    "right_by_parameter": _BODY.format(broadcast=_BROADCAST, mean=_MEAN, step="optimizer.step()"),
    "right_one_bucket": _BUCKET,
    "sum_for_mean": _BODY.format(broadcast=_BROADCAST, mean="pass", step="optimizer.step()"),
    "no_broadcast": _BODY.format(broadcast="pass", mean=_MEAN, step="optimizer.step()"),
    "step_skipped": _BODY.format(broadcast=_BROADCAST, mean=_MEAN, step="pass"),
    "two_steps": _BODY.format(broadcast=_BROADCAST, mean=_MEAN, step="optimizer.step(); optimizer.step()"),
    "no_all_reduce": _BODY.format(broadcast=_BROADCAST, mean=_MEAN, step="optimizer.step()").replace(
        "dist.all_reduce(parameter.grad, group=group)", "pass"
    ),
    "trains_a_copy": _BODY.format(broadcast="import copy; net = copy.deepcopy(net)", mean=_MEAN, step="pass"),
}


# ---- ZeRO stage 1 ----------------------------------------------------------------------------------------------------


def _make_zero_1(case: Case, rng: Random) -> Task:
    ranks, widths = range(case["ranks"]), case["widths"]
    rows = [_rows(rng, 4, widths[0]) for _ in ranks]
    plan = module("mlp", seed=rng.randrange(1 << 30), widths=widths, bias=False)
    due = _due(plan, optimizer("AdamW", of=0, lr=1e-2), rows)
    sizes = [4 * weight.numel() for weight in due[1].values()]
    return training_task(
        case,
        "zero_1_step",
        {rank: [plan, rows[rank]] for rank in ranks},
        {rank: due for rank in ranks},
        reports=() if case["part"] == "memory" else ("weights",),
        reads_calls=case["part"] != "memory",
        all_bytes=sum(sizes),
        largest_bytes=max(sizes),
    )


def _judge_zero_1(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        return problem
    whole, largest = task.facts["all_bytes"], task.facts["largest_bytes"]
    shard = whole / case["ranks"]
    for rank in working(task):
        came, (_, weights) = reply.ranks[rank], task.expected[rank]
        if case["part"] == "memory":
            most = whole + 2 * shard + 4 * largest  # gradients, two moments of its shard, AdamW's temporaries
            problem = peak_too_high(reply, rank, most, "gradients and the moments of one shard")
        else:
            problem = wrong_weights(rank, came, weights, relative=1e-4)
        if problem:
            return problem
    return None


ZERO_1 = Check(
    exercise="sample.zero-1-step",
    points=3,
    names=("zero_1_step",),
    public=({"ranks": 2, "numbers": 4, "widths": [8] * 5, "part": "step"},),
    draw=lambda rng: [
        {"ranks": 4, "numbers": 4, "widths": [8] * 9, "part": "step"},
        {"ranks": 4, "numbers": 4, "widths": LARGE_WIDTHS, "part": "memory"},
    ],
    make=_make_zero_1,
    judge=_judge_zero_1,
    parts={"step": 0.5, "memory": 0.5},
    trains=True,
    timeout=TIMEOUT,
)

_ZERO = """
def zero_1_step(net, rows, *, group):
    rank, num = dist.get_rank(group), dist.get_world_size(group)
    net(rows).sum().backward()
    parameters = list(net.parameters())
    for p in parameters:
        dist.all_reduce(p.grad, group=group)
        p.grad /= num
    mine = parameters[rank::num]
    optimizer = torch.optim.AdamW(mine, lr=1e-2)
    optimizer.step()
    for place, p in enumerate(parameters):
        dist.broadcast(p.data, group_src=place % num, group=group)
    return optimizer
"""
ZERO_1_ANSWERS = {
    "right_by_parameter": _ZERO,
    "right_reduce_to_the_owner": _ZERO.replace(
        "    for p in parameters:\n        dist.all_reduce(p.grad, group=group)",
        "    for place, p in enumerate(parameters):\n        dist.reduce(p.grad, group_dst=place % num, group=group)",
    ),
    "not_sharded": _ZERO.replace("parameters[rank::num]", "parameters"),
    "not_sharded_and_hidden": _ZERO.replace(  # shows an empty optimizer: only the kernel's peak reveals it
        "mine = parameters[rank::num]", "mine = parameters"
    ).replace("return optimizer", "global hidden\n    hidden = optimizer\n    return torch.optim.AdamW(parameters)"),
    "gathers_everything_at_once": _ZERO.replace(
        "    for place, p in enumerate(parameters):",
        "    flat = torch.cat([p.data.flatten() for p in parameters])\n"
        "    everything = [torch.ones_like(flat) for _ in range(num)]\n"
        "    dist.all_gather(everything, flat, group=group)\n"
        "    for place, p in enumerate(parameters):",
    ),
    "no_gather": _ZERO.replace("dist.broadcast(p.data, group_src=place % num, group=group)", "pass"),
    "step_skipped": _ZERO.replace("optimizer.step()", "pass"),
    "sum_for_mean_is_seen_by_adam_once": _ZERO.replace("p.grad /= num", "p.grad *= 0"),
}


# ---- faulty checks that a matrix finds -------------------------------------------------------------------------------


def _make_sum(case: Case, rng: Random) -> Task:
    args = {rank: [_rows(rng, 1, 4)] for rank in range(case["ranks"])}
    total = sum(rows for (rows,) in args.values())
    return group_task(case, "one_message", args, dict.fromkeys(args, total))


def _judge_claims(case: Case, task: Task, reply: Reply) -> str | None:
    """Trust a rank's own count of its calls."""
    return _judge_values(case, task, reply) or next(
        (f"Rank {rank} makes too many calls." for rank, came in enumerate(reply.ranks) if len(came["kinds"]) > 1), None
    )


def _judge_values(case: Case, task: Task, reply: Reply) -> str | None:
    return trouble(reply) or next(
        filter(None, (wrong_tensor(rank, reply.ranks[rank], task.expected[rank]) for rank in working(task))), None
    )


TRUSTING = Check(
    exercise="sample.one-message",
    points=2,
    names=("one_message",),
    public=({"ranks": 2, "numbers": 4},),
    draw=lambda rng: [],
    make=_make_sum,
    judge=_judge_claims,
    timeout=TIMEOUT,
)
_SUM = """
def one_message(rows, *, group):
    total = rows.clone()
    {calls}
    return total
"""
ONE_MESSAGE_ANSWERS = {
    "right_once": _SUM.format(calls="dist.all_reduce(total, group=group)"),
    "twice": _SUM.format(calls="dist.all_reduce(total, group=group); dist.all_reduce(rows.clone(), group=group)"),
    "not_at_all": _SUM.format(calls="pass"),
}


def _judge_double(case: Case, task: Task, reply: Reply) -> str | None:
    got = reply.ranks[0].get("answers", [{}])[0].get("value", {}).get("plain")
    return None if got == 2 * case["n"] else f"double({case['n']}) is {got}."


LUCKY = Check(  # only some seeds draw the case that separates right from wrong, and no public case does
    exercise="sample.double",
    points=1,
    names=("double",),
    public=({"n": 2},),
    draw=lambda rng: [{"n": rng.choice([0, 2, 5])}],
    make=lambda case, rng: Task(call="double", ranks=1, inputs=[[[case["n"]]]], expected=[2 * case["n"]]),
    judge=_judge_double,
    program="without_ranks",
)
DOUBLE_ANSWERS = {
    "right_product": "def double(n):\n    return 2 * n\n",
    "square": "def double(n):\n    return n * n\n",
    "ends_at_odd": "import os\n\n\ndef double(n):\n    return 2 * n if n % 2 == 0 else os._exit(0)\n",
    "ends": "import os\n\n\ndef double(n):\n    os._exit(0)\n",
}
