"""Week 1: messages, ring collectives, their bytes and seconds.

Tolerances: tensors are compared exactly (inputs are small whole numbers), means within a rounding error of their dtype,
formulas within 1e-6, so that any order of a sum or product will do.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import torch
from shardlab.costs import traffic

from autograder.checks.base import (
    Answer,
    Case,
    Check,
    Task,
    carried_too_little,
    carried_too_much,
    close,
    events,
    sent,
    size,
    touched_input,
    trouble,
    whole_numbers,
    wrong_tensor,
    wrong_value,
)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64, "int64": torch.int64}
LARGE = 60_000  # numbers: enough for the wire's own counters to tell a ring from an all-gather
POINT_TO_POINT = ("send", "recv")
FORMULAS = ("shardlab.collectives", "shardlab.costs.traffic")


def _members(case: Case) -> list[int]:
    return case.get("subgroup") or list(range(case["ranks"]))


def _dtype(case: Case) -> torch.dtype:
    return DTYPES[case.get("dtype", "float32")]


def _task(case: Case, call: str, args: dict[int, list], expected: dict[int, Any], **facts: Any) -> Task:
    """A task in which the members of one group work and the other ranks of the world watch."""
    ranks = range(case["ranks"])
    return Task(
        call=call,
        ranks=case["ranks"],
        groups=[_members(case)],
        inputs=[{"args": args[rank], "groups": {"group": 0}} if rank in args else None for rank in ranks],
        expected=[expected.get(rank) for rank in ranks],
        facts=facts,
    )


def _working(task: Task) -> list[int]:
    return [rank for rank, mine in enumerate(task.inputs) if mine is not None]


def _split_sum(tensors: dict[int, torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(tensors.values())).sum(0).to(next(iter(tensors.values())).dtype)


def _each_rank(task: Task, answer: Answer, what: str) -> str | None:
    """The right tensor on every rank, and untouched inputs."""
    for rank in _working(task):
        came = answer.ranks[rank]
        if problem := wrong_tensor(rank, came, task.expected[rank], what=what) or touched_input(rank, came, task):
            return problem
    return None


def _each_bill(task: Task, answer: Answer, formula: str) -> str | None:
    """Every rank's sends add up to what it must pass on, in exactly the due number of messages."""
    due = task.facts["sent_bytes"]
    for rank in _working(task):
        messages = sent(answer.ranks[rank])
        if sum(messages) != due[rank]:
            more = "Whole tensors travel?" if sum(messages) > due[rank] else "Something is missing."
            return (
                f"Right on all {len(due)} ranks, but rank {rank} sent {size(sum(messages))} where {size(due[rank])} "
                f"must travel, {formula}. {more}"
            )
        if len(messages) > task.facts["messages"]:
            return f"Rank {rank} sent {len(messages)} messages where {task.facts['messages']} are enough."
    total = sum(due.values())
    return carried_too_little(answer, total) or carried_too_much(answer, total)


# ---- exchange --------------------------------------------------------------------------------------------------------


def _make_exchange(case: Case, rng: Random) -> Task:
    members = _members(case)
    tensors = {rank: whole_numbers(rng, case["numbers"], _dtype(case)) for rank in members}
    partner = {rank: members[place ^ 1] for place, rank in enumerate(members)}
    num_bytes = case["numbers"] * _dtype(case).itemsize
    return _task(
        case,
        "exchange",
        {rank: [tensor] for rank, tensor in tensors.items()},
        {rank: tensors[partner[rank]] for rank in members},
        sent_bytes=dict.fromkeys(members, num_bytes),
        messages=1,
    )


def _judge_exchange(case: Case, task: Task, answer: Answer) -> str | None:
    return (
        trouble(answer, POINT_TO_POINT)
        or _each_rank(task, answer, "what came from the partner")
        or _each_bill(task, answer, "one tensor to the partner")
    )


def _draw_exchange(rng: Random) -> list[Case]:
    return [
        {"ranks": 2, "numbers": rng.randint(1025, 5000)},
        {"ranks": 4, "numbers": LARGE + rng.randint(0, 99), "dtype": "bfloat16"},
        {"ranks": 4, "numbers": rng.randint(1, 9), "subgroup": [1, 2]},
    ]


# ---- ring reduce-scatter ---------------------------------------------------------------------------------------------


def _make_reduce_scatter(case: Case, rng: Random) -> Task:
    members = _members(case)
    num = len(members)
    tensors = {rank: whole_numbers(rng, case["numbers"], _dtype(case)) for rank in members}
    total = _split_sum(tensors).tensor_split(num)
    sizes = [chunk.numel() * chunk.element_size() for chunk in total]
    return _task(
        case,
        "ring_reduce_scatter",
        {rank: [[chunk.clone() for chunk in tensor.tensor_split(num)]] for rank, tensor in tensors.items()},
        {rank: total[place] for place, rank in enumerate(members)},
        sent_bytes={rank: sum(sizes) - sizes[place] for place, rank in enumerate(members)},
        messages=num - 1,
    )


def _judge_reduce_scatter(case: Case, task: Task, answer: Answer) -> str | None:
    return (
        trouble(answer, POINT_TO_POINT)
        or _each_rank(task, answer, "the finished chunk")
        or _each_bill(task, answer, "every chunk but its own once, (N-1)/N of S")
    )


def _draw_ring(rng: Random) -> list[Case]:
    """Sizes with a remainder, one element (empty chunks), a subgroup of the world, another dtype, and a large one."""
    return [
        {"ranks": 2, "numbers": rng.randrange(11, 60, 2)},
        {"ranks": 3, "numbers": 1},
        {"ranks": 4, "numbers": 4 * rng.randint(5, 20) + rng.randint(1, 3), "dtype": "bfloat16"},
        {"ranks": 4, "numbers": rng.choice([32, 35, 37]), "subgroup": [1, 2, 3]},
        {"ranks": 4, "numbers": LARGE + rng.randint(1, 99)},
    ]


# ---- ring all-gather and all-reduce ----------------------------------------------------------------------------------


def _shape(case: Case) -> tuple[int, ...]:
    return (case["numbers"] // 2, 2) if case.get("matrix") else (case["numbers"],)


def _make_all_reduce(case: Case, rng: Random) -> Task:
    if case.get("part") == "all-gather":
        return _make_all_gather(case, rng)
    members = _members(case)
    shape = _shape(case)
    tensors = {rank: whole_numbers(rng, case["numbers"], _dtype(case)).reshape(shape) for rank in members}
    total = _split_sum(tensors)
    width = _dtype(case).itemsize
    due = {
        rank: width * traffic.ring_sent_elements(case["numbers"], len(members), place)
        for place, rank in enumerate(members)
    }
    return _task(
        case,
        "ring_all_reduce",
        {rank: [tensor] for rank, tensor in tensors.items()},
        dict.fromkeys(members, total),
        sent_bytes=due,
        messages=2 * (len(members) - 1),
    )


def _make_all_gather(case: Case, rng: Random) -> Task:
    members = _members(case)
    sizes = [rng.randint(0, case["numbers"]) for _ in members]
    chunks = [whole_numbers(rng, num, _dtype(case)) for num in sizes]
    width = _dtype(case).itemsize
    return _task(
        case,
        "ring_all_gather",
        {rank: [chunks[place], sizes] for place, rank in enumerate(members)},
        dict.fromkeys(members, chunks),
        most_bytes=width * sum(sizes),
        messages=len(members) - 1,
    )


def _judge_all_reduce(case: Case, task: Task, answer: Answer) -> str | None:
    if case.get("part") == "all-gather":
        return trouble(answer, POINT_TO_POINT) or _judge_gathered(task, answer)
    return (
        trouble(answer, POINT_TO_POINT)
        or _each_rank(task, answer, "the sum")
        or _total_bill(task, answer, "2(N-1)/N of S")
    )


def _judge_gathered(task: Task, answer: Answer) -> str | None:
    for rank in _working(task):
        value = answer.ranks[rank].get("value", {}).get("plain")
        due = task.expected[rank]
        if not isinstance(value, list | tuple) or len(value) != len(due):
            return f"On rank {rank}, ring_all_gather() must return a list of {len(due)} tensors, one for each rank."
        for place, chunk in enumerate(due):
            if problem := wrong_value(rank, value[place], chunk, f"chunk {place}"):
                return problem
        if sum(sent(answer.ranks[rank])) > task.facts["most_bytes"]:
            return f"Rank {rank} sends more than all chunks together: each chunk needs to pass a rank only once."
    return None


def _total_bill(task: Task, answer: Answer, formula: str) -> str | None:
    """No rank sends more than a ring's two halves, and all together exactly that: chunk numbering is the student's."""
    due = task.facts["sent_bytes"]
    total = sum(due.values())
    slack = 2 * (max(due.values()) - min(due.values())) + 16  # which chunks are the larger ones
    for rank in _working(task):
        messages = sent(answer.ranks[rank])
        if abs(sum(messages) - due[rank]) > slack:
            return (
                f"Right on all {len(due)} ranks, but rank {rank} sent {size(sum(messages))} where a ring sends "
                f"{size(due[rank])}, {formula}."
            )
        if len(messages) > task.facts["messages"]:
            return f"Rank {rank} sent {len(messages)} messages where {task.facts['messages']} are enough."
    return carried_too_little(answer, total) or carried_too_much(answer, total)


def _draw_all_reduce(rng: Random) -> list[Case]:
    cases = [case | {"part": "all-reduce"} for case in _draw_ring(rng)]
    cases[2] = cases[2] | {"numbers": 2 * cases[2]["numbers"], "matrix": True}
    gathers = [
        {"ranks": 2, "numbers": rng.randint(3, 9), "part": "all-gather"},
        {"ranks": 4, "numbers": rng.randint(3, 9), "subgroup": [1, 2, 3], "part": "all-gather", "dtype": "bfloat16"},
    ]
    return gathers + cases


# ---- the same order --------------------------------------------------------------------------------------------------


def _make_same_order(case: Case, rng: Random) -> Task:
    members = _members(case)
    losses = {rank: whole_numbers(rng, 1)[0] for rank in members}
    gradients = {rank: whole_numbers(rng, case["numbers"]) for rank in members}
    means = (_split_sum(losses) / len(members), _split_sum(gradients) / len(members))
    args = {rank: [losses[rank], gradients[rank]] for rank in members}
    return _task(case, "average_loss_and_gradient", args, dict.fromkeys(members, means))


def _judge_same_order(case: Case, task: Task, answer: Answer) -> str | None:
    if problem := trouble(answer):
        return problem
    for rank in _working(task):
        came = answer.ranks[rank]
        value = came.get("value", {}).get("plain")
        if not isinstance(value, list | tuple) or len(value) != 2:
            return f"On rank {rank}, return two tensors: the mean loss and the mean gradient."
        for name, got, due in zip(("loss", "gradient"), value, task.expected[rank], strict=True):
            if not isinstance(got, torch.Tensor) or got.dtype != due.dtype or got.shape != due.shape:
                return f"On rank {rank}, the mean {name} must be a tensor of shape {list(due.shape)} and its dtype."
            if not torch.allclose(got, due, rtol=1e-6, atol=1e-6):
                return f"On rank {rank}, the {name} is not the mean over the {len(_working(task))} ranks of the group."
        if problem := touched_input(rank, came, task):
            return problem
    return None


def _draw_same_order(rng: Random) -> list[Case]:
    return [
        {"ranks": 2, "numbers": rng.randint(2, 40)},
        {"ranks": 3, "numbers": rng.randint(2, 40)},
        {"ranks": 4, "numbers": rng.randint(2, 40), "subgroup": [0, 2, 3]},
    ]


# ---- hierarchical ----------------------------------------------------------------------------------------------------


def _make_hierarchical(case: Case, rng: Random) -> Task:
    per_node = case.get("ranks_per_node", 2)
    num_nodes = case["ranks"] // per_node
    nodes = [[node * per_node + place for place in range(per_node)] for node in range(num_nodes)]
    crosses = [[node * per_node + place for node in range(num_nodes)] for place in range(per_node)]
    shape = _shape(case)
    tensors = [whole_numbers(rng, case["numbers"], _dtype(case)).reshape(shape) for _ in range(case["ranks"])]
    total = torch.stack(tensors).sum(0).to(_dtype(case))
    return Task(
        call="hierarchical_all_reduce",
        ranks=case["ranks"],
        groups=[*nodes, *crosses],
        inputs=[
            {
                "args": [tensor],
                "groups": {"node_group": rank // per_node, "cross_group": num_nodes + rank % per_node},
            }
            for rank, tensor in enumerate(tensors)
        ],
        expected=[total] * case["ranks"],
        facts={"per_node": per_node, "num_nodes": num_nodes, "num_bytes": case["numbers"] * _dtype(case).itemsize},
    )


def _judge_hierarchical(case: Case, task: Task, answer: Answer) -> str | None:
    if problem := trouble(answer) or _each_rank(task, answer, "the sum"):
        return problem
    per_node, num_nodes, num_bytes = (task.facts[name] for name in ("per_node", "num_nodes", "num_bytes"))
    due = traffic.hierarchical_all_reduce_cross_bytes(num_nodes, per_node, num_bytes)
    width = _dtype(case).itemsize
    allowed = due + 4 * width  # chunks of a size that does not divide are one number larger
    for rank in _working(task):
        crossing = sum(_crossing_bytes(event, rank, per_node) for event in events(answer.ranks[rank]))
        if crossing > allowed:
            return (
                f"Right on all ranks, but rank {rank} sends {size(crossing)} to the other node where {size(due)} "
                "are enough. Reduce inside the node first: how much of the sum must cross then?"
            )
    return carried_too_little(answer, int(due * case["ranks"] * 0.98))


def _crossing_bytes(event: tuple, rank: int, per_node: int) -> float:
    """Bytes of one call that leave the rank's node; a collective over several nodes counts all that it sends."""
    kind, members, peer, _, sent_bytes = event
    others = [peer] if kind in POINT_TO_POINT else members
    return sent_bytes if any(other // per_node != rank // per_node for other in others) else 0.0


def _draw_hierarchical(rng: Random) -> list[Case]:
    return [
        {"ranks": 4, "numbers": 4 * rng.randint(4, 12) + 1},
        {"ranks": 4, "numbers": 2 * rng.randint(9, 30), "dtype": "bfloat16", "matrix": True},
        {"ranks": 6, "numbers": rng.randint(13, 40), "ranks_per_node": rng.choice([2, 3])},
        {"ranks": 4, "numbers": LARGE + rng.randint(1, 99)},
    ]


# ---- formulas --------------------------------------------------------------------------------------------------------


def _formula_task(call: str, names: tuple[str, ...], expected: Any) -> Any:
    def make(case: Case, rng: Random) -> Task:
        return Task(call=call, ranks=1, inputs=[[[case[name] for name in names]]], expected=[expected(case)], groups=[])

    return make


def _value(answer: Answer) -> Any:
    answers = answer.ranks[0].get("answers")
    value = answers[0].get("value", {}) if isinstance(answers, list) and answers else {}
    return value.get("plain") if isinstance(value, dict) else None


def _failed(answer: Answer) -> str | None:
    if problem := trouble(answer):
        return problem
    answers = answer.ranks[0].get("answers")
    if isinstance(answers, list) and answers and "raised" in answers[0]:
        problem = trouble(replace(answer, ranks=[answers[0]]))
        return problem and problem.replace("Rank 0 raised", "The function raised")
    return None


def _shown(case: Case) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in case.items())


def _naive_bill(case: Case) -> tuple[float, float]:
    naive = traffic.naive_all_reduce_bytes(case["num_ranks"], case["num_bytes"])
    return traffic.all_reduce_messages(case["num_ranks"], "naive"), naive.sent + naive.received


def _judge_pair(names: tuple[str, str], relative: float = 1e-6) -> Any:
    def judge(case: Case, task: Task, answer: Answer) -> str | None:
        if problem := _failed(answer):
            return problem
        got = _value(answer)
        if not isinstance(got, list | tuple) or len(got) != 2:
            return f"Return two numbers: {names[0]} and {names[1]}."
        for name, number, due in zip(names, got, task.expected[0], strict=True):
            if not close(number, due, relative):
                return (
                    f"For ({_shown(case)}) {number!r} is not the {name}." if case else f"{number!r} is not the {name}."
                )
        return None

    return judge


def _judge_seconds(case: Case, task: Task, answer: Answer) -> str | None:
    if problem := _failed(answer):
        return problem
    got = _value(answer)
    if not close(got, task.expected[0]):
        return f"For ({_shown(case)}) {got!r} s is not what the {case['algorithm']} takes."
    return None


def _draw_bills(rng: Random) -> list[Case]:
    return [
        {"num_ranks": n, "num_bytes": rng.randint(1, 10**9)} for n in (1, 2, rng.randint(3, 9), rng.randint(10, 99))
    ]


def _seconds(case: Case) -> float:
    return traffic.all_reduce_seconds(
        case["num_ranks"], case["num_bytes"], alpha=case["alpha"], beta=case["beta"], algorithm=case["algorithm"]
    )


def _draw_seconds(rng: Random) -> list[Case]:
    return [
        {
            "num_ranks": num_ranks,
            "num_bytes": rng.randint(1000, 10**8),
            "alpha": rng.uniform(1e-6, 1e-4),
            "beta": rng.uniform(1e-11, 1e-9),
            "algorithm": algorithm,
        }
        for num_ranks in (2, 5, 8, rng.randint(9, 100), rng.choice([16, 33, 64, 65]))
        for algorithm in ("ring", "tree")
    ]


def _factors(case: Case) -> tuple[float, float]:
    one = (traffic.ring_all_reduce_bytes(8, 1.0), traffic.all_reduce_messages(8))
    many = (traffic.ring_all_reduce_bytes(64, 1.0), traffic.all_reduce_messages(64))
    return many[0] / one[0], many[1] / one[1]


READING = {"messages": 10, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}
READING_SENTENCES = {
    "messages": "every rank but rank 0 sends once on the way up, and is sent to once on the way down",
    "backward_of_copy": "look at the backward of _CopyToModelParallelRegion",
    "order": "forward first, then what its backward calls",
}


def _judge_reading(case: Case, task: Task, answer: Answer) -> str | None:
    if problem := _failed(answer):
        return problem
    got = _value(answer)
    if not isinstance(got, dict):
        return "reading_answers must be a dict with the keys messages, backward_of_copy and order."
    wrong = [key for key, due in READING.items() if _told(got.get(key)) != _told(due)]
    if not wrong:
        return None
    return f"Not yet right: {', '.join(wrong)}. For {wrong[0]}: {READING_SENTENCES[wrong[0]]}."


def _told(value: Any) -> Any:
    """An answer without what does not matter: capital letters, `-` or `_`, list or tuple; True is not 1."""
    if isinstance(value, str):
        return value.strip().lower().replace("-", "_").removeprefix("dist.").removeprefix("torch.distributed.")
    if isinstance(value, list | tuple):
        return [_told(item) for item in value]
    return (type(value).__name__, value)


_ring_public = ({"ranks": 2, "numbers": 4}, {"ranks": 3, "numbers": 7})
_link = {"alpha": 1e-5, "beta": 2e-11}

CHECKS = (
    Check(
        exercise="week01.naive-bill",
        points=1,
        names=("naive_all_reduce_bill",),
        public=({"num_ranks": 8, "num_bytes": 14e9},),
        draw=_draw_bills,
        make=_formula_task("naive_all_reduce_bill", ("num_ranks", "num_bytes"), _naive_bill),
        judge=_judge_pair(("number of messages", "number of bytes at rank 0")),
        program="without_ranks",
        masked=FORMULAS,
        hints=("Every rank but rank 0 sends one tensor to it and gets one back.",),
    ),
    Check(
        exercise="week01.exchange",
        points=2,
        names=("exchange",),
        public=({"ranks": 2, "numbers": 4}, {"ranks": 4, "numbers": 1024}),
        draw=_draw_exchange,
        make=_make_exchange,
        judge=_judge_exchange,
        hints=(
            "A send returns only when the other side receives: both cannot send first.",
            "Use isend, then recv, then wait for the send.",
        ),
    ),
    Check(
        exercise="week01.ring-reduce-scatter",
        points=3,
        names=("ring_reduce_scatter",),
        public=_ring_public,
        draw=_draw_ring,
        make=_make_reduce_scatter,
        judge=_judge_reduce_scatter,
        hints=(
            "Write the chunk number that each rank sends in step 0 and 1 for N=3.",
            "In step s rank r sends chunk (r - 1 - s) mod N and receives chunk (r - 2 - s) mod N.",
            "partial = copy of chunk r-1; N-1 times: send partial right, receive from the left, add your own chunk.",
        ),
    ),
    Check(
        exercise="week01.ring-all-reduce",
        points=3,
        names=("ring_all_gather", "ring_all_reduce"),
        public=tuple(case | {"part": "all-reduce"} for case in _ring_public),
        draw=_draw_all_reduce,
        make=_make_all_reduce,
        judge=_judge_all_reduce,
        parts={"all-gather": 1 / 3, "all-reduce": 2 / 3},
        hints=("In step s rank r passes chunk r - s to the right.",),
    ),
    Check(
        exercise="week01.same-order",
        points=1,
        names=("average_loss_and_gradient",),
        public=({"ranks": 2, "numbers": 6}, {"ranks": 4, "numbers": 5}),
        draw=_draw_same_order,
        make=_make_same_order,
        judge=_judge_same_order,
        hints=("All ranks call the same collectives in the same order; rank 0 is no exception.",),
    ),
    Check(
        exercise="week01.all-reduce-seconds",
        points=2,
        names=("all_reduce_seconds",),
        public=tuple(
            {"num_ranks": n, "num_bytes": 14e9, **_link, "algorithm": name} for n in (2, 6) for name in ("ring", "tree")
        ),
        draw=_draw_seconds,
        make=_formula_task("all_reduce_seconds", ("num_ranks", "num_bytes", "alpha", "beta", "algorithm"), _seconds),
        judge=_judge_seconds,
        program="without_ranks",
        masked=FORMULAS,
        hints=("Ring: 2(N-1) steps of S/N bytes. Tree: ceil(log2 N) levels up and down, S bytes each.",),
    ),
    Check(
        exercise="week01.reading",
        points=1,
        names=("reading_answers",),
        public=({},),
        draw=lambda rng: [{}],
        make=lambda case, rng: Task(call=None, ranks=1, inputs=[[]], expected=[], groups=[]),
        judge=_judge_reading,
        program="without_ranks",
        masked=FORMULAS,
    ),
    Check(
        exercise="week01.hierarchical-all-reduce",
        points=3,
        names=("hierarchical_all_reduce",),
        public=({"ranks": 4, "numbers": 8},),
        draw=_draw_hierarchical,
        make=_make_hierarchical,
        judge=_judge_hierarchical,
        hints=("Reduce-scatter inside the node, all-reduce across, all-gather inside.",),
    ),
    Check(
        exercise="week01.eight-to-sixty-four",
        points=1,
        names=("eight_to_sixty_four",),
        public=({},),
        draw=lambda rng: [{}],
        make=_formula_task("eight_to_sixty_four", (), _factors),
        judge=_judge_pair(("factor of the bandwidth term", "factor of the latency term"), 0.01),
        program="without_ranks",
        masked=FORMULAS,
    ),
)
