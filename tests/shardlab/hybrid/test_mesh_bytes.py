"""Bytes of every axis and of states on every rank: the formulas of `costs` match the meter exactly."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.context_parallel import Gathered, Ring, Ulysses
from shardlab.costs.context import ContextWay
from shardlab.hybrid import Settings, layers_of, sent_by_axis
from shardlab.hybrid.groups import names
from shardlab.mesh import Mesh
from shardlab.meter.held import storage_bytes
from shardlab.model.router import Choice
from shardlab.pipeline_parallel.builders import zbv
from shardlab.pipeline_parallel.schedule import stages_of_rank

from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, Case, own_rows, started
from tests.shardlab.hybrid.mesh_step import (
    MeshModel,
    MeshStep,
    StageOfMesh,
    dense_parameters,
    expert_parameters_of_rank,
    mesh_state_bytes,
    step_bytes,
)

TWO = Settings(num_microbatches=2, max_norm=0.1)
BF16, BIASED = replace(TWO, compute_dtype=torch.bfloat16), replace(TWO, bias_rate=0.01)
EVEN = replace(EXPERTS, choice=Choice(4, 4))  # every token visits every expert, so that a formula knows the loads
ROPE = replace(DENSE, rope=True)
LOW: dict[str, Any] = {"dtype": torch.float32}
CASES = [
    Case(Mesh(tp=2, pp=2, dp=2), TWO, **LOW),
    Case(Mesh(tp=4), replace(TWO, split_vocabulary=True), **LOW),
    Case(Mesh(tp=2, cp=2, pp=2), replace(BF16, sequence_parallel=True), **LOW),
    Case(Mesh(cp=2, dp=2), replace(TWO, context=Ulysses(), recompute="full", zero=1), **LOW),
    Case(
        Mesh(cp=4), replace(TWO, context=Gathered(), recompute="selective", compute_dtype=torch.bfloat16), ROPE, **LOW
    ),
    Case(Mesh(tp=2, cp=2, dp=2, ep=2), TWO, moe=EVEN, **LOW),
    Case(
        Mesh(tp=2, dp=2, ep=2), replace(TWO, sequence_parallel=True, bias_rate=0.01, recompute="full"), moe=EVEN, **LOW
    ),
    Case(Mesh(dp=4, ep=4), replace(TWO, zero=1), moe=replace(EVEN, auxiliary=0.0, z=0.0), **LOW),
    Case(Mesh(tp=2, dp=4, ep=4), TWO, moe=EVEN, **LOW),  # rows are gathered, not tokens
    Case(Mesh(dp=2, pp=2), replace(TWO, zero=2), replace(DENSE, tied=False), **LOW),
    Case(Mesh(dp=2, pp=2), replace(TWO, zero=3), replace(DENSE, tied=False), moe=EVEN, **LOW),
    Case(Mesh(pp=2, tp=2), replace(TWO, schedule=zbv), **LOW),
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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_axis_sends_what_its_formula_says(case):
    for rank, (sent, due, (held, formula)) in enumerate(
        shardlab.run(measured, case, ranks=case.mesh.world, timeout=120)
    ):
        assert sent == pytest.approx(due), rank
        assert held == formula


@pytest.mark.parametrize("case", [CASES[2], CASES[6], CASES[8]], ids=str)
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
