"""After the backward on five axes: sum each gradient over the ranks that have a part of it, divide by all tokens."""

from __future__ import annotations

from random import Random

from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.mesh import Mesh
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, trouble
from autograder.checks.meshes import task_inputs
from autograder.weeks.week12_expert_parallel._shared import drawn, sends_too_much, wrong_tensors

KINDS = ("dense", "split", "norm", "expert", "tied")
MASKED = tuple(
    f"shardlab.{part}"
    for part in ("hybrid", "train", "mesh", "data_parallel", "tensor_parallel", "expert_parallel", "pipeline_parallel")
)
COUNT_BYTES = 64  # for token counts, per rank of the world
WHY = {
    "the gradient of a dense weight": "Whole on every tp rank. Which ranks have other tokens? Divide by all tokens.",
    "the gradient of a split weight": "Each tp rank has a different part. Which ranks have the same, and other tokens?",
    "the gradient of a norm": "With sequence parallelism each tp rank has seen a part of the tokens only.",
    "the gradient of an expert": "It already has the ep ranks' tokens; edp adds the rest. Divide by all tokens.",
    "the gradient of the tied weight": "First and last stage each have a part of the sum.",
}
NAMES: dict[str, str] = dict(zip(KINDS, WHY, strict=True))


def groups_of(mesh: Mesh) -> tuple[list[list[int]], list[dict[str, int]]]:
    """All groups of a task and each rank's group numbers by name; ranks between the ends are alone in `ends`."""
    ends = [[pipeline[0], pipeline[-1]] if mesh.pp > 1 else pipeline for pipeline in mesh.groups("pp")]
    between = [[rank] for pipeline in mesh.groups("pp") for rank in pipeline[1:-1]]
    named = {"copies": mesh.groups("dp", "cp"), "edp": mesh.groups("edp"), "tp": mesh.groups("tp")}
    made: list[list[int]] = []
    mine: list[dict[str, int]] = [{} for _ in range(mesh.world)]
    for name, groups in (named | {"ends": ends + between}).items():
        for members in groups:
            for rank in members:
                mine[rank][name] = len(made)
            made.append(members)
    return made, mine


def kinds_of(mesh: Mesh, rank: int) -> list[str]:
    """The kinds of weights that a rank has; the tied weight is on the first and the last stage."""
    has_tied = mesh.coordinates(rank)["pp"] in (0, mesh.pp - 1)
    return [kind for kind in KINDS if kind != "tied" or has_tied]


def given(case: Case, mesh: Mesh, rng: Random) -> list[list[Tensor]]:
    """The gradients of every rank; a dense gradient is the same on all tp ranks."""
    first_of_tp = [min(mesh.group_of(rank, "tp")) for rank in range(mesh.world)]
    own = [[drawn(rng, case["numbers"] + at) for at in range(len(kinds_of(mesh, rank)))] for rank in range(mesh.world)]
    for rank, first in enumerate(first_of_tp):
        own[rank][0] = own[first][0].clone()
    return own


def adders(mesh: Mesh, rank: int, kind: str) -> list[int]:
    """The ranks whose gradients add up to that of `rank`."""
    copies = mesh.group_of(rank, "dp", "cp")
    if kind == "expert":
        return mesh.group_of(rank, "edp")
    if kind == "norm":
        return [other for copy in copies for other in mesh.group_of(copy, "tp")]
    if kind == "tied":
        pipelines = [mesh.group_of(copy, "pp") for copy in copies]
        return sorted({end for pipeline in pipelines for end in (pipeline[0], pipeline[-1])})
    return copies


def least_bytes(mesh: Mesh, kind: str, num_bytes: int) -> float:
    """Bytes that a rank must send for one gradient: a ring all-reduce over each of its groups."""
    sharers = {"norm": mesh.tp, "tied": min(2, mesh.pp)}.get(kind, 1)
    copies = mesh.dp * mesh.cp // (mesh.ep if kind == "expert" else 1)
    return ring_all_reduce_bytes(copies, num_bytes) + ring_all_reduce_bytes(sharers, num_bytes)


def _make(case: Case, rng: Random) -> Task:
    mesh = Mesh(**case["mesh"])
    own = given(case, mesh, rng)
    places = [mesh.coordinates(rank) for rank in range(mesh.world)]
    tokens = {(dp, cp): rng.randint(1, 40) for dp in range(mesh.dp) for cp in range(mesh.cp)}
    if len(tokens) > 1:
        tokens[mesh.dp - 1, mesh.cp - 1] = 0  # nothing but padding
    args, expected, most = [], [], {}
    for rank, place in enumerate(places):
        kinds = kinds_of(mesh, rank)
        args.append([own[rank], kinds, tokens[place["dp"], place["cp"]]])
        due = {}
        for at, kind in enumerate(kinds):
            parts = [own[other][at].double() for other in adders(mesh, rank, kind)]
            due[NAMES[kind]] = (sum(parts, parts[0].new_zeros(())) / sum(tokens.values())).float()
        expected.append(due)
        sizes = zip(kinds, own[rank], strict=True)
        most[rank] = sum(least_bytes(mesh, kind, one.nbytes) for kind, one in sizes) + COUNT_BYTES * mesh.world
    made, mine = groups_of(mesh)
    inputs = task_inputs(args, mine)
    return Task("finish_gradients", mesh.world, inputs, expected, made, {"most": most}, keeps_inputs=True)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply) or wrong_tensors(task, reply, WHY, factors=True):
        return problem
    return sends_too_much(task, reply, task.facts["most"], "each gradient once over each group that shares it")


def _draw(rng: Random) -> list[Case]:
    """Axes alone and combined, with 2 and 3 ranks, and a stage between the ends."""

    def case(**sizes: int) -> Case:
        return {"mesh": sizes, "numbers": rng.randint(200, 400)}

    return [
        case(dp=3),
        case(tp=3),
        case(pp=3, tp=2),
        case(dp=2, cp=2, ep=2),
        case(cp=3, ep=3, pp=2),
        case(tp=2, cp=2, pp=2, ep=2),
    ]


CHECK = Check(
    exercise="week15.finish",
    points=3,
    names=("finish_gradients",),
    public=(
        {"mesh": {"dp": 2}, "numbers": 250},
        {"mesh": {"tp": 2, "cp": 2, "ep": 2}, "numbers": 250},
        {"mesh": {"pp": 2, "cp": 2}, "numbers": 250},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=20.0,
    hints=(
        "Two questions for each kind: which ranks have a part of this gradient, and how many tokens are in the mean?",
        "First sum one number over `copies`: the valid tokens. Then sum dense and split over `copies`; norms also over "
        "tp; the tied weight also over `ends`; experts only over ____.",
        "extra = {'norm': tp, 'tied': ends}. Clone, all_reduce over extra[kind] if there is one, all_reduce over edp "
        "for experts and copies for the rest, divide by all tokens. A rank without tokens must take part.",
    ),
)
