"""Random meshes and models for the mesh trainer. Each is either compared with one process or refused."""

import random
from dataclasses import replace

import torch
from shardlab.context_parallel.balance import contiguous, striped, zigzag
from shardlab.context_parallel.gathered import Gathered
from shardlab.context_parallel.ring import Ring
from shardlab.context_parallel.ulysses import Ulysses
from shardlab.hybrid import Settings
from shardlab.model.gpt import GPTConfig
from shardlab.model.moe import MoEConfig
from shardlab.model.router import Choice
from shardlab.pipeline_parallel.builders import dualpipe_v, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zbv

from tests.shardlab.hybrid.all_meshes import meshes
from tests.shardlab.hybrid.five_axes import Case, adam, differences, sgd, trained

SCHEDULES = {gpipe: 1, one_f_one_b: 1, zb_h1: 1, zb_h2: 1, interleaved: 2, zbv: 2, dualpipe_v: 2}  # stages per rank
FROZEN = [
    (),
    (),
    ("token.*", "position.*"),
    ("token.*", "position.*", "blocks.0.*"),
    ("blocks.*",),
    ("blocks.[1-9].*",),
    ("head.*", "norm.*"),
    ("*.bias",),
    ("*.attention.*",),
    ("*moe.experts*", "*moe.router*"),
]


def draw_mesh_case(seed, world):
    """A mesh of this many ranks, a schedule, a model whose sizes are often odd, and its frozen parameters."""
    draw = random.Random(seed)
    mesh = draw.choice(list(meshes(world)))
    schedule = draw.choice([*SCHEDULES])
    stages = mesh.pp * SCHEDULES[schedule]
    microbatches = draw.choice([mesh.pp, 2 * mesh.pp]) if schedule is interleaved else draw.randint(1, 5)
    microbatches = max(microbatches, 2 * mesh.pp) if schedule is dualpipe_v else microbatches
    sequence_parallel = mesh.tp > 1 and draw.random() < 0.5
    settings = Settings(
        num_microbatches=microbatches,
        schedule=schedule,
        zero=draw.choice([0, 0, 1, 2, 3]),
        sequence_parallel=sequence_parallel,
        split_vocabulary=draw.random() < 0.5,
        context=draw.choice([Ring(), Gathered(), Ulysses()]),
        layout=draw.choice([zigzag, contiguous, striped]),
        recompute=draw.choice(["none", "none", "selective", "full", "stage"]),
        max_norm=draw.choice([None, 0.1]),
    )
    has_experts = mesh.ep > 1 or mesh.expert_tp != mesh.tp or draw.random() < 0.3
    settings = replace(settings, bias_rate=draw.choice([0.0, 0.01]) if has_experts else 0.0)
    config = draw_config(draw, mesh, stages, splits=sequence_parallel or has_experts)
    experts = draw_experts(draw, mesh, config.hidden) if has_experts else None
    rows = microbatches * draw.randint(1, 2)
    frozen = draw.choice(FROZEN)
    return Case(mesh, settings, config, experts, draw.choice([adam, sgd]), rows=rows, steps=2, frozen=frozen)


def draw_config(draw, mesh, stages, *, splits):
    kv_heads = mesh.tp * draw.choice([1, 1, 2, mesh.cp])
    heads = kv_heads * draw.choice([1, 1, 2, 3])
    rope = draw.random() < 0.5
    width = draw.choice([2, 2, 4, 6]) if rope else draw.choice([1, 2, 3, 4])
    each = mesh.cp * draw.choice([1, 3, 4]) * (2 if mesh.cp > 1 else 1)
    length = each * (mesh.tp if splits else 1)
    return GPTConfig(
        layers=stages + draw.randint(0, 2),
        hidden=heads * width,
        heads=heads,
        sequence=max(2, length),
        vocabulary=draw.choice([7, 13, 16]),
        kv_heads=kv_heads,
        gated=draw.random() < 0.5,
        tied=draw.random() < 0.5,
        rope=rope,
        flash=draw.random() < 0.8,
    )


def draw_experts(draw, mesh, hidden):
    number = mesh.ep * draw.choice([1, 2, 3])
    choice = Choice(number, draw.randint(1, min(number, 3)), renormalise=draw.random() < 0.5)
    return MoEConfig(
        hidden=hidden,
        width=mesh.expert_tp * draw.choice([1, 3, 4]),
        choice=choice,
        shared=draw.randint(0, 1),
        gated=draw.random() < 0.5,
        auxiliary=draw.choice([0.0, 0.02]),
        z=draw.choice([0.0, 0.003]),
    )


def train_meshes(seeds, world):
    """By seed: this rank's losses, norms and chunks, or the sentence that refused the case."""
    torch.set_num_threads(1)
    found = {}
    for seed in seeds:
        try:
            found[seed] = trained(draw_mesh_case(seed, world))
        except ValueError as refusal:
            found[seed] = str(refusal)
    return found


def compared(seed, world, by_rank):
    """The largest difference of a case from one process, or the sentence that refused it on every rank."""
    if any(isinstance(one, str) for one in by_rank):
        assert len({str(one) for one in by_rank}) == 1, (seed, by_rank)
        return by_rank[0]
    return max(differences(draw_mesh_case(seed, world), by_rank))
