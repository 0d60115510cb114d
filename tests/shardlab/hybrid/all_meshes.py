"""All factorizations of 2, 4 and 8 ranks, with every schedule and ZeRO stage. Each is either trained or refused."""

from collections.abc import Iterator
from dataclasses import replace

from shardlab.costs.models.model import divisors
from shardlab.hybrid import Settings
from shardlab.mesh import Mesh
from shardlab.pipeline_parallel.builders import dualpipe_v, interleaved, one_f_one_b, zb_h1, zbv

from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, Case, adam

WORLDS = (2, 4, 8)
SCHEDULES = (one_f_one_b, interleaved, zb_h1, zbv, dualpipe_v)
LAYERS = {one_f_one_b: 1, zb_h1: 1, interleaved: 2, zbv: 2, dualpipe_v: 2}  # stages per rank
WHOLE_BACKWARDS = (one_f_one_b, interleaved)  # ZeRO-2 and 3 refuse all other schedules, on any mesh
STEPS = 10


def meshes(world: int) -> Iterator[Mesh]:
    """Every way to divide a world among dp, pp, cp and tp, each with every ep, and experts split over tp or not."""
    for dp in divisors(world):
        for pp in divisors(world // dp):
            for cp in divisors(world // dp // pp):
                tp = world // dp // pp // cp
                for etp in sorted({1, tp}):
                    for ep in divisors(dp * cp * tp // etp):
                        yield Mesh(dp=dp, pp=pp, cp=cp, tp=tp, ep=ep, etp=etp)


def cases(worlds=WORLDS) -> list[Case]:
    """The cases to train: dense if no axis is only for experts, and with experts. A few of them are refused."""
    found = []
    for mesh in (mesh for world in worlds for mesh in meshes(world)):
        for schedule in SCHEDULES:
            for zero in range(4 if schedule in WHOLE_BACKWARDS or mesh.world == 2 else 2):  # otherwise refused
                found += [case_of(mesh, schedule, zero, moe) for moe in models_of(mesh)]
    return found


def models_of(mesh):
    """A dense model if ep and etp have no effect, and a model with experts."""
    return [EXPERTS, None] if mesh.ep == 1 and mesh.expert_tp == mesh.tp else [EXPERTS]


def case_of(mesh, schedule, zero, moe, *, steps=STEPS):
    """A case with enough microbatches, layers, heads and experts for its mesh. Every second case splits sequences."""
    microbatches = max(2, 2 * mesh.pp)
    settings = Settings(
        num_microbatches=microbatches,
        schedule=schedule,
        zero=zero,
        sequence_parallel=mesh.tp > 1 and (mesh.dp + mesh.cp + zero) % 2 == 0,
        max_norm=0.1,
        bias_rate=0.01 if moe and zero % 2 == 0 else 0.0,
    )
    config = replace(DENSE, layers=max(2, mesh.pp * LAYERS[schedule]), heads=8, kv_heads=4, tied=moe is None)
    experts = None if moe is None else replace(moe, choice=replace(moe.choice, experts=8))
    return Case(mesh, settings, config, experts, adam, rows=microbatches, steps=steps)
