"""Any list of slots on real ranks: the loss and every stage's gradient must match one process.

The given `pipeline_step` runs the student's `run_slots` on lists from this file, so a mistake in another exercise costs
nothing here. A microbatch may be shorter than the others, and one rank may hold all stages. Numbers are float64 and
compared within 1e-9 of the largest.
"""

from __future__ import annotations

from random import Random

import torch
from shardlab.pipeline_parallel.builders import BUILDERS
from torch import Tensor
from torch.nn.functional import mse_loss

from autograder.checks.base import Case, Check, Reply, Task, calls_of, touched_input, trouble
from autograder.checks.groups import POINT_TO_POINT, each_bill, group_task, members_of, working
from autograder.checks.order import matched_by_tags

EQUAL, UNEVEN = "equal microbatches", "a short microbatch"
TOLERANCE = 1e-9


def one_process(weights: list[Tensor], inputs: Tensor, targets: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The loss of the whole batch and each weight's gradient, without a pipeline."""
    leaves = [weight.clone().requires_grad_() for weight in weights]
    for weight in leaves:
        inputs = torch.tanh(inputs @ weight)
    loss = mse_loss(inputs, targets)
    loss.backward()
    return loss.detach(), [weight.grad for weight in leaves if weight.grad is not None]


def slots_of(case: Case) -> list[list[str]]:
    """A case's schedule as strings, one stage per rank; a single rank runs each microbatch through all stages."""
    num, stages = case["microbatches"], range(case.get("stages", 0))
    if stages:
        there_and_back = [(stage, "F") for stage in stages] + [(stage, "B") for stage in reversed(stages)]
        return [[f"{stage}{kind}{m}" for m in range(num) for stage, kind in there_and_back]]
    return [[str(slot) for slot in slots] for slots in BUILDERS[case["schedule"]](len(members_of(case)), num)]


def _make_step(case: Case, rng: Random) -> Task:
    members, width = members_of(case), case["numbers"]
    num_stages = case.get("stages", len(members))
    rows = [case["rows"]] * case["microbatches"]
    rows[-1] = case.get("last_rows", case["rows"])
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = [drawn(width, width) / width**0.5 for _ in range(num_stages)]
    inputs, targets = drawn(sum(rows), width), drawn(sum(rows), width)
    loss, gradients = one_process(weights, inputs, targets)
    cut = [[part.clone() for part in batch.split(rows)] for batch in (inputs, targets)]
    stages_of = {rank: range(num_stages) if "stages" in case else [at] for at, rank in enumerate(members)}
    own = {rank: [one if at in mine else None for at, one in enumerate(weights)] for rank, mine in stages_of.items()}
    num_bytes = inputs.numel() * inputs.element_size()
    ends = (members[0], members[-1])
    return group_task(
        case,
        "pipeline_step",
        {rank: [own[rank], *cut, slots_of(case)] for rank in members},
        {rank: (loss if rank == ends[1] else None, [gradients[at] for at in stages_of[rank]]) for rank in members},
        keeps_inputs=True,
        sent_bytes={rank: num_bytes * sum(rank != end for end in ends) for rank in members},
        messages=2 * case["microbatches"],
    )


def _judge_step(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, POINT_TO_POINT):
        return problem
    for rank in working(task):
        reported = reply.ranks[rank]
        value = reported.get("value")
        pair = value.get("plain") if isinstance(value, dict) else None
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return f"Rank {rank} must return two things: the loss (None except on the last stage) and its gradients."
        loss, gradients = task.expected[rank]
        problem = _wrong_loss(rank, pair[0], loss) or _wrong_gradients(rank, pair[1], gradients, case["microbatches"])
        if problem := problem or touched_input(rank, reported, task):
            return problem
    return (
        matched_by_tags(reply)
        or each_bill(task, reply, "one activation forward and one gradient back per microbatch")
        or _another_order(case, task, reply)
    )


def _another_order(case: Case, task: Task, reply: Reply) -> str | None:
    """The complaint if a rank with one stage exchanges messages with a neighbor in a different order than its list."""
    members, lists = working(task), slots_of(case)
    for place, rank in enumerate(members):
        slots = [slot for slot in lists[place] if "W" not in slot]
        for step, forward in ((1, "send"), (-1, "recv")):
            if not 0 <= place + step < len(members):
                continue
            peer, back = members[place + step], "recv" if forward == "send" else "send"
            came = [call.kind for call in calls_of(reply, rank) if call.peer == peer]
            if came != [forward if "F" in slot else back for slot in slots]:
                return (
                    f"Right, but the messages between rank {rank} and rank {peer} do not follow the list: {slots[:6]}."
                )
    return None


def _wrong_loss(rank: int, received: object, expected: Tensor | None) -> str | None:
    if expected is None:
        return (
            None
            if received is None
            else (f"Rank {rank} does not hold the last stage, so it has no loss: return an empty dict there.")
        )
    number = received.item() if isinstance(received, Tensor) and received.numel() == 1 else received
    if not isinstance(number, float) or not abs(number - expected.item()) <= TOLERANCE * max(1.0, expected.item()):
        return f"The loss on rank {rank} is not the mean over the whole batch."
    return None


def _wrong_gradients(rank: int, received: object, expected: list[Tensor], num_microbatches: int) -> str | None:
    if not isinstance(received, list | tuple) or len(received) != len(expected):
        return f"Rank {rank} must return the gradient of each of its {len(expected)} weights."
    pairs = zip(received, expected, strict=True)
    return next(filter(None, (_wrong_gradient(rank, *pair, num_microbatches) for pair in pairs)), None)


def _wrong_gradient(rank: int, received: object, expected: Tensor, num_microbatches: int) -> str | None:
    if not isinstance(received, Tensor) or received.shape != expected.shape or received.dtype != expected.dtype:
        shape = list(expected.shape)
        return f"On rank {rank} the gradient must be a tensor with the weight's shape, {shape}, and dtype."
    if (received - expected).abs().max() <= TOLERANCE * expected.abs().max():
        return None
    ratio = float((received * expected).sum() / (expected * expected).sum())
    if ratio > 0 and (received - ratio * expected).abs().max() <= 1e-6 * received.abs().max():
        return (
            f"The gradient on rank {rank} has the right direction but is {ratio:.4g} times as large as in one process; "
            f"there are {num_microbatches} microbatches."
        )
    return f"The gradient on rank {rank} differs from that of one process on the whole batch."


def _draw_step(rng: Random) -> list[Case]:
    def case(ranks: int, microbatches: int, schedule: str, **more: object) -> Case:
        sizes = {"ranks": ranks, "numbers": rng.randint(2, 6), "microbatches": microbatches, "rows": rng.randint(3, 6)}
        return sizes | {"schedule": schedule} | more

    equal = [
        case(2, rng.randint(3, 6), "gpipe"),
        case(3, 2, "1f1b"),
        case(5, rng.randint(3, 5), "1f1b", subgroup=[1, 3]),
        case(3, 4, "zb-h1"),
        case(2, 2, "1f1b", subgroup=[1], stages=rng.randint(2, 4)),
    ]
    uneven = [case(2, 3, "gpipe", last_rows=1), case(3, 4, "1f1b", last_rows=2)]
    return [one | {"part": EQUAL} for one in equal] + [one | {"part": UNEVEN} for one in uneven]


SMALL: Case = {"ranks": 2, "numbers": 4, "microbatches": 4, "rows": 3, "part": EQUAL}
CHECK = Check(
    exercise="week07.pipeline-step",
    points=3,
    names=("pipeline_step",),
    public=(
        *(SMALL | {"schedule": name} for name in ("gpipe", "1f1b", "zb-h1")),
        SMALL | {"schedule": "gpipe", "microbatches": 3, "last_rows": 1, "part": UNEVEN},
        SMALL | {"ranks": 1, "stages": 3, "schedule": "1f1b"},
    ),
    draw=_draw_step,
    make=_make_step,
    judge=_judge_step,
    masked=("shardlab.pipeline_parallel.execution", "shardlab.pipeline_parallel.stages"),
    timeout=20.0,
    parts={EQUAL: 2 / 3, UNEVEN: 1 / 3},
    hints=(
        "F receives, computes and sends; B does the same in the other direction. Which stage receives nothing, and "
        "which sends nothing? The losses of all microbatches must add up to the batch's mean before any backward.",
        "F: x from messages.receive, unless the stage is 0; y = forward(stage, m, x); keep both; the last stage saves "
        "its loss, the others send y to stage + 1. B: the gradient from messages.receive, unless the stage is the "
        "last; backward(…); send x.grad to ____.",
        "x = messages.receive(stage, 'F', m).requires_grad_(); alive[stage, m] = x, y; … B or I: gradient = "
        "messages.receive(stage, 'B', m) and after backward messages.send(x.grad, stage - 1, 'B', m); W does neither. "
        "The share is mse_loss(y, target) * len(target) / num_rows.",
    ),
)
