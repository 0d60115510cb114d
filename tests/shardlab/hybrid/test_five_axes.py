"""A mesh of five axes does what one process does, and sends what formulas say."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.context_parallel import Gathered, Ring, Ulysses, contiguous
from shardlab.costs.context import ContextWay
from shardlab.hybrid import LayerByLayer, MeshTrainer, Settings, chunks_to_save, layers_of, sent_by_axis
from shardlab.hybrid.groups import names
from shardlab.hybrid.sums import NotFinite
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.meter.held import storage_bytes
from shardlab.model.router import Choice
from shardlab.pipeline_parallel.builders import dualpipe_v, gpipe, interleaved, one_f_one_b, v_half, zb_h1, zbv
from shardlab.pipeline_parallel.schedule import stages_of_rank
from shardlab.train.hook import Hook
from shardlab.train.loop import train

from autograder.matrices.sample import fixed, some
from tests.shardlab.hybrid.all_meshes import cases, meshes
from tests.shardlab.hybrid.five_axes import (
    DENSE,
    EXPERTS,
    Case,
    differences,
    own_rows,
    put_together,
    sgd,
    started,
    trained,
)
from tests.shardlab.hybrid.mesh_step import (
    MeshModel,
    MeshStep,
    StageOfMesh,
    dense_parameters,
    expert_parameters_of_rank,
    mesh_state_bytes,
    step_bytes,
)
from tests.shardlab.train.small import recipe

# ---- Every axis, alone and combined, compared with one process: losses, norms and all weights after some steps. Also
# in bfloat16 with float32 sums, masters and states; with models built layer by layer; and with a NaN gradient, which is
# blamed on the rank where it arose.

TWO = Settings(num_microbatches=2, max_norm=0.1)
HALVES = (one_f_one_b, zb_h1)
CASES = [
    Case(Mesh(dp=2), TWO),
    Case(Mesh(tp=2), TWO),
    Case(Mesh(tp=4), TWO),  # neighbors share a key-value head
    Case(Mesh(tp=4), replace(TWO, sequence_parallel=True), optimizer=sgd),
    Case(Mesh(cp=2), TWO),
    Case(Mesh(cp=2), replace(TWO, context=Ulysses(), layout=contiguous)),
    Case(Mesh(cp=2, tp=2), replace(TWO, context=Gathered(), sequence_parallel=True), replace(DENSE, rope=True)),
    Case(Mesh(pp=2), TWO),
    Case(Mesh(pp=2), replace(TWO, schedule=interleaved)),
    Case(Mesh(pp=2), replace(TWO, schedule=zb_h1)),
    Case(Mesh(pp=2), replace(TWO, schedule=zbv)),
    Case(Mesh(pp=2), replace(TWO, schedule=dualpipe_v, num_microbatches=4)),
    Case(Mesh(pp=2), replace(TWO, schedule=v_half, num_microbatches=4)),
    Case(Mesh(pp=2, dp=2, tp=2), replace(TWO, schedule=gpipe), replace(DENSE, tied=False)),
    Case(Mesh(pp=2, cp=2, tp=2), replace(TWO, sequence_parallel=True)),
    Case(Mesh(cp=2), TWO, replace(DENSE, heads=8, rope=True)),  # heads of width 2
    *(
        Case(Mesh(pp=2), replace(TWO, schedule=one), frozen=("token.*", "position.*", "blocks.[01].*"))
        for one in HALVES
    ),
    Case(Mesh(pp=2, dp=2), replace(TWO, zero=1), frozen=("blocks.[23].*", "norm.*", "head.*")),
    Case(Mesh(), TWO, moe=EXPERTS),
    Case(Mesh(dp=2), TWO, moe=EXPERTS),
    Case(Mesh(dp=2, ep=2), replace(TWO, bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=4, ep=2), TWO, moe=EXPERTS),
    Case(Mesh(tp=2, ep=2, etp=1), TWO, moe=EXPERTS),
    Case(Mesh(tp=2, dp=2, ep=2), replace(TWO, sequence_parallel=True), moe=EXPERTS),
    Case(Mesh(tp=2, cp=2, dp=2, ep=4, etp=1), replace(TWO, bias_rate=0.01), replace(DENSE, rope=True), moe=EXPERTS),
    Case(Mesh(pp=2, cp=2, dp=2, ep=2), replace(TWO, schedule=zbv), moe=EXPERTS),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mesh_does_what_one_process_does(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)


ALL_AXES = Mesh(dp=2, cp=2, tp=2, ep=2)
SHARDED = [
    *(Case(Mesh(dp=2), replace(TWO, zero=zero)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, cp=2), replace(TWO, zero=zero, replicas=2)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, pp=2), replace(TWO, zero=zero)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, pp=2), replace(TWO, zero=zero, schedule=interleaved), moe=EXPERTS) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, tp=4), replace(TWO, zero=zero, sequence_parallel=True)) for zero in (1, 2, 3)),
    *(Case(ALL_AXES, replace(TWO, zero=zero, bias_rate=0.01), moe=EXPERTS) for zero in (1, 2, 3)),
    Case(Mesh(dp=2, pp=2), replace(TWO, zero=1, schedule=zbv, num_microbatches=4)),
    Case(Mesh(dp=2), replace(TWO, zero=3, schedule=gpipe)),  # weights are gathered again for each backward
]


@pytest.mark.parametrize("case", SHARDED, ids=str)
def test_so_do_slices(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)


AGAIN = [
    Case(Mesh(tp=2), replace(TWO, recompute="selective", sequence_parallel=True)),
    Case(Mesh(cp=2, pp=2), replace(TWO, recompute="full"), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="stage", bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="full", schedule=zb_h1, bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="full", zero=3), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="stage", zero=3), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="selective", zero=2), moe=EXPERTS),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", AGAIN, ids=lambda case: f"{case}-{case.settings.recompute}")
def test_so_does_what_is_computed_again(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)


LOW = Settings(num_microbatches=2, max_norm=0.1, compute_dtype=torch.bfloat16)
FLOAT32: dict[str, Any] = {"dtype": torch.float32, "optimizer": sgd}
LOW_PRECISION = [
    Case(Mesh(dp=2), LOW, **FLOAT32),
    Case(Mesh(tp=2, pp=2), replace(LOW, sequence_parallel=True, schedule=zbv), **FLOAT32),
    *(Case(Mesh(dp=2, cp=2), replace(LOW, zero=zero), **FLOAT32) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, tp=2, ep=2), replace(LOW, zero=zero), moe=EXPERTS, **FLOAT32) for zero in (0, 1, 3)),
]


@pytest.mark.parametrize("case", LOW_PRECISION, ids=str)
def test_low_precision_stays_close_to_one_process(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert max(loss, norm) > 1e-7 and loss < 0.02 and norm < 0.1 and weight < 0.02, (loss, norm, weight)
    assert {tensor.dtype for *_, chunks in by_rank for *_, kind, _, _, tensor in chunks if kind != "step"} == {
        torch.float32
    }


def sums_of_many_small():
    """512 gradients of 1/1024 of the first: in bfloat16 each would vanish when added to the sum."""
    trainer, _ = started(Case(Mesh(), LOW, **FLOAT32))
    parameter = next(iter(trainer.places))
    assert parameter.dtype == torch.bfloat16
    with trainer.weights[0].passes():
        for size in (1.0, *[1 / 1024] * 512):
            (parameter * size).sum().backward()
    return parameter.grad.flatten()[0].item(), parameter.grad.dtype


def test_main_gradients_add_up_in_float32():
    assert shardlab.run(sums_of_many_small, ranks=1)[0] == (1.5, torch.float32)


def begun(mesh, config, moe):
    """What this rank would save before the first step, and the layers it has built."""
    torch.set_num_threads(1)
    whole, built = LayerByLayer(config, moe, seed=3), []
    block = whole.block
    whole.block = lambda layer: (built.append(layer), block(layer))[1]
    trainer = MeshTrainer(whole, create_process_groups(mesh), sgd, Settings(num_microbatches=2))
    return [(c.key, c.kind, c.global_shape, c.offsets, c.tensor.clone()) for c in chunks_to_save(trainer)], built


@pytest.mark.parametrize("moe", [None, EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "apart"])
def test_every_part_is_the_one_of_the_whole_model(moe, tied):
    config = replace(DENSE, tied=tied)
    by_rank = shardlab.run(begun, Mesh(pp=2, tp=2), config, moe, ranks=4, timeout=60)
    assert [built for _, built in by_rank] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    due = {name: one.detach() for name, one in LayerByLayer(config, moe, seed=3).whole().named_parameters()}
    found = put_together([chunks for chunks, _ in by_rank], ["weight"])
    assert {name for name, _ in found} == due.keys()
    assert all(torch.equal(found[name, "weight"], one) for name, one in due.items())


class Poison(Hook):
    """Puts a NaN into one weight's gradient in one backward of one rank."""

    def __init__(self, rank, name):
        self.rank, self.name = rank, name

    def on_step(self, training, step):
        if step == 2 and training.rank == self.rank:
            [part] = training.trainer.parts.values()
            weight = next(one for name, one in part.named_parameters() if name.endswith(self.name))
            handle = weight.register_hook(lambda gradient: (handle.remove(), torch.full_like(gradient, torch.nan))[1])


def blamed(one, rank, name):
    try:
        train(one, hooks=[Poison(rank, name)], quiet=True)
    except NotFinite as error:
        return error.rank, error.name
    return None


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("mesh", [{"dp": 3}, {"pp": 2, "dp": 2}], ids=["dp", "pp-dp"])
def test_who_brought_it_is_named_under_every_stage(zero, mesh):
    one = recipe(mesh, step={"batch": 12, "microbatches": 2, "zero": zero})
    last = math.prod(mesh.values()) - 1
    found = shardlab.run(blamed, one, last, "norm_1.weight", ranks=last + 1, timeout=90, observe=False)
    assert {rank for rank, _ in found} == {last} and all(name.endswith("norm_1.weight") for _, name in found)


# ---- A sample of all meshes, which changes with every commit. `python -m benchmarks all-meshes` trains them all. -----

REFUSALS = "sends gradients from hooks of a full backward", "a tied embedding in two stages of one rank"
SAMPLE = some(fixed("all-meshes"), cases(), 5)


def test_every_way_to_share_eight_ranks_is_there():
    found = list(meshes(8))
    assert len({(mesh.dp, mesh.pp, mesh.cp, mesh.tp) for mesh in found}) == 20  # three twos among four axes
    assert len(set(found)) == len(found) and all(mesh.world == 8 for mesh in found)
    assert Mesh(dp=2, cp=2, tp=2, ep=4, etp=1) in found and Mesh(tp=8, ep=8, etp=1) in found
    every = cases()
    assert len({str(case) for case in every}) == len(every)


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_a_mesh_fixed_does_what_one_process_does(case):
    try:
        by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=170)
    except shardlab.RanksFailed as error:
        assert any(sentence in str(error) for sentence in REFUSALS), error
        return
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-5 and norm < 1e-5 and weight < 1e-5, (loss, norm, weight)


# ---- Bytes of every axis and of states on every rank: the formulas of `costs` match the meter exactly. ---------------

BF16, BIASED = replace(TWO, compute_dtype=torch.bfloat16), replace(TWO, bias_rate=0.01)
EVEN = replace(EXPERTS, choice=Choice(4, 4))  # every token visits every expert, so that a formula knows the loads
ROPE = replace(DENSE, rope=True)
LOW_MESH_BYTES: dict[str, Any] = {"dtype": torch.float32}
CASES_MESH_BYTES = [
    Case(Mesh(tp=2, pp=2, dp=2), TWO, **LOW_MESH_BYTES),
    Case(Mesh(tp=4), replace(TWO, split_vocabulary=True), **LOW_MESH_BYTES),
    Case(Mesh(tp=2, cp=2, pp=2), replace(BF16, sequence_parallel=True), **LOW_MESH_BYTES),
    Case(Mesh(cp=2, dp=2), replace(TWO, context=Ulysses(), recompute="full", zero=1), **LOW_MESH_BYTES),
    Case(
        Mesh(cp=4),
        replace(TWO, context=Gathered(), recompute="selective", compute_dtype=torch.bfloat16),
        ROPE,
        **LOW_MESH_BYTES,
    ),
    Case(Mesh(tp=2, cp=2, dp=2, ep=2), TWO, moe=EVEN, **LOW_MESH_BYTES),
    Case(
        Mesh(tp=2, dp=2, ep=2),
        replace(TWO, sequence_parallel=True, bias_rate=0.01, recompute="full"),
        moe=EVEN,
        **LOW_MESH_BYTES,
    ),
    Case(Mesh(dp=4, ep=4), replace(TWO, zero=1), moe=replace(EVEN, auxiliary=0.0, z=0.0), **LOW_MESH_BYTES),
    Case(Mesh(tp=2, dp=4, ep=4), TWO, moe=EVEN, **LOW_MESH_BYTES),  # rows are gathered, not tokens
    Case(Mesh(dp=2, pp=2), replace(TWO, zero=2), replace(DENSE, tied=False), **LOW_MESH_BYTES),
    Case(Mesh(dp=2, pp=2), replace(TWO, zero=3), replace(DENSE, tied=False), moe=EVEN, **LOW_MESH_BYTES),
    Case(Mesh(pp=2, tp=2), replace(TWO, schedule=zbv), **LOW_MESH_BYTES),
]


def measured(case):
    """This rank's bytes sent in the second step, by axis, and bytes of states, each measured and by formula."""
    trainer, replica = started(case)
    trainer.step(*own_rows(case, 0, replica))
    with meter.record() as bill:
        trainer.step(*own_rows(case, 1, replica))
    due: dict[str, float] = {}
    for axes, number in predicted(case, trainer).items():
        name = names(trainer.groups)[axes]
        due[name] = due.get(name, 0.0) + number
    sent = {axis: number for axis, number in sent_by_axis(bill.events, trainer.groups).items() if number}
    return sent, due, states(case, trainer)


def sizes_of(case):
    config, moe = case.config, case.moe
    of_experts: dict[str, Any] = {}
    if moe is not None:
        choice = moe.choice
        of_experts = {"experts": choice.experts, "choices": choice.k, "width": moe.width, "shared": moe.shared}
        of_experts["has_own_losses"] = bool(moe.auxiliary or moe.z)
    return MeshModel(
        config.layers, config.hidden, config.heads, config.kv_heads, config.sequence, config.vocabulary,
        gated=config.gated, tied=config.tied, learned_positions=not config.rope, **of_experts,
    )  # fmt: skip


WAYS: dict[type, ContextWay] = {Ring: "ring", Ulysses: "ulysses", Gathered: "gathered"}


def step_of(case):
    mesh, settings = case.mesh, case.settings
    return MeshStep(
        tp=mesh.tp, cp=mesh.cp, dp=mesh.dp, pp=mesh.pp, ep=mesh.ep, etp=mesh.expert_tp,
        microbatch=case.rows // settings.num_microbatches, num_microbatches=settings.num_microbatches,
        zero=settings.zero, sequence_parallel=settings.sequence_parallel, splits_vocabulary=settings.splits_vocabulary,
        context=WAYS[type(settings.context)], recompute=settings.recompute,
        moves_biases=bool(settings.bias_rate), bytes_each=2 if settings.compute_dtype else 4,
    )  # fmt: skip


def stages_of(case, trainer, rank):
    pp_rank, last = case.mesh.coordinates(rank)["pp"], trainer.num_stages - 1
    mine = stages_of_rank(trainer.schedule, pp_rank)
    return [StageOfMesh(len(layers_of(s, last + 1, case.config.layers)), s == 0, s == last) for s in mine]


def predicted(case, trainer):
    homes = {s: rank for rank in range(case.mesh.pp) for s in stages_of_rank(trainer.schedule, rank)}
    mine = case.mesh.coordinates(dist.get_rank())["pp"]
    crossings = [pair for pair in pairwise(range(trainer.num_stages)) if homes[pair[0]] != homes[pair[1]]]
    messages = sum(mine == homes[sender] for pair in crossings for sender in pair)
    tied = trainer._tied.numel() if trainer._tied is not None else 0
    vectors = {is_expert: vectors_of(trainer, is_expert) for is_expert in (False, True)}
    stages = stages_of(case, trainer, dist.get_rank())
    return step_bytes(
        sizes_of(case), step_of(case), stages, messages=messages, dense=vectors[False], experts=vectors[True], tied=tied
    )


def vectors_of(trainer, is_expert):
    """The number of elements in each vector."""
    found = []
    for weights in trainer.weights:
        parameters = list(dict.fromkeys(one.parameter for one in weights.slices()))
        if trainer.places[parameters[0]].is_expert == is_expert:
            zero = getattr(weights, "zero", None)
            found += [sum(p.numel() for p in parameters)] if zero is None else [v.num_elements for v in zero.vectors]
    return found


def states(case, trainer):
    """Bytes of weights, and of masters with their states, measured and by formula."""
    step, world = step_of(case), case.mesh
    parts = list(trainer.places)
    masters = list(trainer.masters())
    moments = [v for one in trainer.optimizers for s in one.state.values() for v in s.values() if v.dim()]
    kept = storage_bytes([*parts, *masters])
    due = [
        mesh_state_bytes(step, ranks, vectors_of(trainer, is_expert))
        for is_expert, ranks in ((False, world.dp * world.cp), (True, step.edp))
    ]
    return storage_bytes(moments) + kept, sum(one.parameters + one.optimizer for one in due)


@pytest.mark.parametrize("case", CASES_MESH_BYTES, ids=str)
def test_every_axis_sends_what_its_formula_says(case):
    for rank, (sent, due, (held, formula)) in enumerate(
        shardlab.run(measured, case, ranks=case.mesh.world, timeout=120)
    ):
        assert sent == pytest.approx(due), rank
        assert held == formula


@pytest.mark.parametrize("case", [CASES_MESH_BYTES[2], CASES_MESH_BYTES[6], CASES_MESH_BYTES[8]], ids=str)
def test_parameters_of_a_rank_are_counted_by_formula(case):
    for dense, experts, due_dense, due_experts in shardlab.run(counted, case, ranks=case.mesh.world, timeout=60):
        assert (dense, experts) == (due_dense, due_experts)


def counted(case):
    trainer, _ = started(case)
    model, stages = sizes_of(case), stages_of(case, trainer, dist.get_rank())
    split = case.settings.splits_vocabulary
    return (
        sum(vectors_of(trainer, False)),
        sum(vectors_of(trainer, True)),
        sum(dense_parameters(model, one, tp=case.mesh.tp, splits_vocabulary=split) for one in stages),
        sum(expert_parameters_of_rank(model, one, ep=case.mesh.ep, etp=case.mesh.expert_tp) for one in stages),
    )
