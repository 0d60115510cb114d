"""One link model: every part of the project gives the same seconds for a collective on a cluster.

Clusters, groups and sizes are drawn at random. Each caller below is a part of the project with its own formula or
interface, and no two may disagree.
"""

import ast
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import pytest
from shardlab.costs import links, traffic
from shardlab.costs.clock import parts
from shardlab.costs.clock.setup import FITTED, Setup, Software, links_of
from shardlab.costs.hardware import ACCELERATORS, Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.links import Group, Links, group_of
from shardlab.costs.memory.states import parameters_on_stage
from shardlab.costs.models.zoo import ZOO, gpt
from shardlab.hybrid.emulated import predicted_seconds
from shardlab.mesh.axes import Mesh
from shardlab.mesh.nodes import link_bytes_per_second
from shardlab.study.interview.model_questions import _at_most_eight
from shardlab.study.interview.question import Setting

from autograder.weeks.week05_tensor_parallel import why_eight
from autograder.weeks.week10_planning import _clusters
from autograder.weeks.week16_capstone_design import _design

ROOT = Path(__file__).parents[3]
GPU = ACCELERATORS["h100"]
SHAPES = [(size, stride) for size in (2, 3, 4, 8, 12, 16, 32, 64, 144) for stride in (1, 2, 3, 4, 8, 16)]
Caller = Callable[[Links, int, int, float], float]


def drawn_links(rng: Random, *, latency: bool) -> Links:
    inside = rng.randint(1, 900) * 1e9
    seconds = [rng.uniform(0, 2e-5) for _ in range(3)] if latency else []
    return Links(inside, rng.uniform(0.02, 1.5) * inside, rng.choice([1, 2, 4, 8, 16, 72]), *seconds)


def as_gpu(cluster: Links) -> Accelerator:
    """A GPU whose data sheet describes this cluster."""
    return replace(GPU, nvlink=cluster.nvlink, network=cluster.network, per_node=cluster.per_node)


def as_dict(cluster: Links) -> dict[str, float]:
    return {"flops": inf, "nvlink": cluster.nvlink, "network": cluster.network, "per_server": cluster.per_node}


# ---- callers that know only bandwidths -------------------------------------------------------------------------------


def week05_all_reduce(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    case = {
        "num_ranks": size,
        "sequence": 1,
        "hidden": round(num_bytes / 2),
        "flops": inf,
        "per_node": cluster.per_node,
    }
    return why_eight.expected(case | {"inside": cluster.nvlink, "between": cluster.network})[1] / 4


def week10_all_reduce(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    model = {"parameters": 0.0, "layers": 1, "hidden": num_bytes / 2, "sequence": 1}
    return _clusters.step_seconds(model, (size, 1, 1, 1), 1, as_dict(cluster)) / 4


def week10_all_gather(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    model = {"parameters": stride * num_bytes / 6, "layers": 1, "hidden": 0, "sequence": 1}
    return _clusters.step_seconds(model, (stride, 1, size, 1), size, as_dict(cluster))


def week16(cluster: Links, layout: dict[str, int], **model: float) -> float:
    whole = {"parameters": 0.0, "layers": 1, "hidden": 0.0, "kv": 0.0, "sequence": 1} | model
    sizes = {"tp": 1, "cp": 1, "pp": 1, "dp": 1, "b": 1, "m": 1, "chunks": 1, "recompute": False}
    return _design.step_seconds(whole, sizes | layout, as_dict(cluster))


def week16_all_reduce(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    return week16(cluster, {"tp": size}, hidden=num_bytes / 2) / 4


def week16_all_gather(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    return week16(cluster, {"tp": stride, "dp": size}, parameters=stride * num_bytes / 6)


def week16_ring_of_keys(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    """Three rounds of (cp - 1) blocks, each sent to the next rank."""
    return week16(cluster, {"tp": stride, "cp": size}, kv=num_bytes * stride * size / 4) / (3 * (size - 1))


def week16_next_stage(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    """One microbatch crosses each boundary twice, in m + pp - 1 slots."""
    return week16(cluster, {"pp": size, "dp": stride}, hidden=num_bytes / 2) / (2 * size)


def mesh_all_reduce(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    ranks = range(0, size * stride, stride)
    return traffic.ring_all_reduce_bytes(size, num_bytes) / link_bytes_per_second(ranks, as_gpu(cluster))


def all_reduce(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    return links.all_reduce_seconds(cluster, group_of(cluster, size, stride), num_bytes)


def all_gather(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    return links.all_gather_seconds(cluster, group_of(cluster, size, stride), num_bytes)


def to_neighbor(cluster: Links, size: int, stride: int, num_bytes: float) -> float:
    return links.neighbor_seconds(cluster, group_of(cluster, size, stride), num_bytes)


def divides(cluster: Links, size: int, stride: int) -> bool:
    """Whether groups fill servers evenly. If not, other groups of a mesh span servers differently from the first."""
    return stride % cluster.per_node == 0 or cluster.per_node % stride == 0


@pytest.mark.parametrize(
    ("caller", "model", "is_asked"),
    [
        (week05_all_reduce, all_reduce, lambda cluster, size, stride: stride == 1),
        (week10_all_reduce, all_reduce, lambda cluster, size, stride: stride == 1),
        (week10_all_gather, all_gather, lambda cluster, size, stride: True),
        (week16_all_reduce, all_reduce, lambda cluster, size, stride: stride == 1),
        (week16_all_gather, all_gather, lambda cluster, size, stride: True),
        (week16_ring_of_keys, to_neighbor, lambda cluster, size, stride: True),
        (week16_next_stage, to_neighbor, lambda cluster, size, stride: True),
        (mesh_all_reduce, all_reduce, divides),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_caller_that_knows_bandwidths(caller: Caller, model: Caller, is_asked):
    rng, asked = Random(caller.__name__), 0
    for cluster in [links.on_paper(gpu) for gpu in ACCELERATORS.values()] + [
        drawn_links(rng, latency=False) for _ in range(20)
    ]:
        for size, stride in SHAPES:
            if is_asked(cluster, size, stride):
                num_bytes, asked = 2.0 * rng.randint(500, 10**6), asked + 1
                expected = model(cluster, size, stride, num_bytes)
                assert caller(cluster, size, stride, num_bytes) == pytest.approx(expected), (cluster, size, stride)
    assert asked > 200


# ---- the planner, which also knows latencies -------------------------------------------------------------------------

MODEL = gpt("a model", 8, 1024, 16, sequence=2048)


@pytest.mark.parametrize("gpu", [gpu for gpu in ACCELERATORS.values() if gpu.generation != "cpu"], ids=lambda g: g.name)
def test_the_planner(gpu):
    setup = Setup(gpu, gradient_bytes=4.0)
    cluster = links_of(gpu, FITTED)
    for size, stride in SHAPES:
        group = group_of(cluster, size, stride)
        if stride == 1:
            activation = 2 * MODEL.sequence * MODEL.hidden
            seconds = parts.tensor_seconds(MODEL, Layout(tp=size), setup)
            assert seconds == pytest.approx(4 * links.all_reduce_seconds(cluster, group, activation))
        plain = Layout(tp=stride, dp=size, overlap=False)
        gradients = 4.0 * parameters_on_stage(MODEL, plain, 0).total
        assert parts.data_seconds(MODEL, plain, setup, 1.0) == pytest.approx(
            links.all_reduce_seconds(cluster, group, gradients)
        )
        keys = MODEL.sequence / size * 2 * 2 * MODEL.kv_width / stride
        ring, gathered = (Layout(tp=stride, cp=size, context=way) for way in ("ring", "gathered"))
        assert parts.context_seconds(MODEL, ring, setup, 0.0) == pytest.approx(
            3 * (size - 1) * links.neighbor_seconds(cluster, group, keys)
        )
        assert parts.context_seconds(MODEL, gathered, setup, 0.0) == pytest.approx(
            3 * links.all_gather_seconds(cluster, group, size * keys)
        )
        stages = Layout(pp=size, dp=stride)
        assert parts.hop_seconds(MODEL, stages, setup) == pytest.approx(
            links.neighbor_seconds(cluster, group, 2 * MODEL.sequence * MODEL.hidden)
        )


def test_software_that_uses_one_card():
    setup = Setup(GPU, software=Software(one_card=True))
    layout = Layout(dp=16, overlap=False)
    group = group_of(setup.links, 16)
    one = setup.links.network
    assert links.ring_bandwidth(setup.links, group, cards=1) == one < links.ring_bandwidth(setup.links, group)
    assert parts.data_seconds(MODEL, layout, setup, 1.0) > parts.data_seconds(MODEL, layout, Setup(GPU), 1.0)


@pytest.mark.parametrize("name", ["a100", "h100", "h800", "b200", "gb200"])
def test_the_interview(name):
    setting = Setting(ZOO["gpt3-175b"], Layout(tp=8, dp=8), ACCELERATORS[name], 1e12)
    found, cluster = _at_most_eight(setting), links_of(setting.gpu)
    activation = 2 * setting.model.sequence * setting.model.hidden
    for where, size in (("inside", cluster.per_node), ("across", 2 * cluster.per_node)):
        seconds = 4 * links.all_reduce_seconds(cluster, group_of(cluster, size), activation)
        assert found[where] == pytest.approx(1e3 * seconds)


# ---- one link --------------------------------------------------------------------------------------------------------


def test_the_alpha_beta_model_of_week_1():
    rng = Random(1)
    for _ in range(200):
        size, num_bytes = rng.randint(2, 64), rng.uniform(1e3, 1e9)
        alpha, beta = rng.uniform(0, 1e-5), 1 / rng.uniform(1e9, 1e12)
        one = Links(1 / beta, 1 / beta, 64, alpha, alpha)
        group = group_of(one, size)
        assert links.all_reduce_seconds(one, group, num_bytes) == pytest.approx(
            traffic.all_reduce_seconds(size, num_bytes, alpha=alpha, beta=beta)
        )
        assert links.all_gather_seconds(one, group, num_bytes) == pytest.approx(
            traffic.all_gather_seconds(size, num_bytes, alpha=alpha, beta=beta)
        )
        sent = traffic.all_to_all_bytes(size, num_bytes)
        assert links.all_to_all_seconds(one, group, sent) == pytest.approx(
            traffic.all_to_all_seconds(size, num_bytes, alpha=alpha, beta=beta)
        )


def test_the_emulated_step_of_week_9():
    for size in (2, 4, 8):
        step = {"num_microbatches": 8, "forward_seconds": 0.01, "gradient_bytes": 400e6}
        mesh = Mesh(dp=size)
        without, slow = (predicted_seconds(mesh, **step, bytes_per_second=speed) for speed in (inf, 32e9))
        one = Links(32e9, 32e9, size)
        assert slow - without == pytest.approx(links.all_reduce_seconds(one, group_of(one, size), 400e6))


# ---- properties of every answer --------------------------------------------------------------------------------------


def test_properties_of_the_model():
    rng = Random(2)
    for _ in range(300):
        cluster, num_bytes = drawn_links(rng, latency=True), rng.uniform(1e3, 1e10)
        for size, stride in SHAPES:
            group = group_of(cluster, size, stride)
            assert 1 <= group.members <= size <= group.members * group.nodes
            speed = links.ring_bandwidth(cluster, group)
            assert min(cluster.nvlink, cluster.network) <= speed <= cluster.nvlink
            faster = replace(cluster, network=2 * cluster.network)
            assert links.all_reduce_seconds(faster, group, num_bytes) <= links.all_reduce_seconds(
                cluster, group, num_bytes
            )
            assert links.neighbor_bandwidth(cluster, group) <= speed
            leaves = (group.nodes - 1) / group.nodes * num_bytes / (group.members * cluster.network)
            flat = links.all_reduce_seconds(cluster, group, num_bytes)
            assert flat >= 0.999 * 2 * leaves or group.nodes == 1  # what must cross the network, through all cards
        alone = Group(1, 1, 1)
        assert links.all_reduce_seconds(cluster, alone, num_bytes) == 0 == links.neighbor_seconds(cluster, alone, 1.0)


@pytest.mark.parametrize("wrong", [{"nvlink": 0.0}, {"network": -1.0}, {"per_node": 0}])
def test_links_that_cannot_be(wrong):
    with pytest.raises(ValueError, match="bandwidths above 0 and 1 GPU or more"):
        Links(**({"nvlink": 1.0, "network": 1.0, "per_node": 8} | wrong))
    with pytest.raises(ValueError, match="use 1 or more of each"):
        group_of(Links(1.0, 1.0, 8), 0)


# ---- no other code divides bytes by a link's bandwidth ---------------------------------------------------------------

MAY_DIVIDE = {
    "labs/shardlab/costs/links.py": "the model",
    "labs/shardlab/costs/machines.py": "a share of a line rate, not bytes",
    "labs/shardlab/study/interview/expert_questions.py": "tokens, not bytes",
    "labs/shardlab/study/interview/data_questions.py": "beta of one link, for a tree and a ring",
    "autograder/weeks/week14_long_context/4096_gpus.py": "FLOPs per byte",
    "solutions/week10_planning/week10_planning.py": "a student's formula, compared with the model by its check",
}


def link_of_division(node: ast.BinOp) -> str | None:
    """The name of the link that this expression divides by, as in `x / gpu.network` or `x / gpu["network"]`."""
    if not isinstance(node.op, ast.Div):
        return None
    by = node.right
    name = by.attr if isinstance(by, ast.Attribute) else None
    if isinstance(by, ast.Subscript) and isinstance(by.slice, ast.Constant):
        name = by.slice.value
    return name if name in ("nvlink", "network") else None


def test_only_the_link_model_divides_bytes_by_a_link():
    files = [file for folder in ("labs", "autograder", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    files += [*(ROOT / "solutions").glob("*/week*.py"), ROOT / "tests" / "milestones.py"]
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno} divides by {link}"
        for file in files
        if str(file.relative_to(ROOT)) not in MAY_DIVIDE
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.BinOp) and (link := link_of_division(node))
    ]
    assert not found, "\n".join(found) + "\nask shardlab.costs.links for the seconds"
