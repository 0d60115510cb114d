"""A step over dp and pp with known timing: stages sleep, and gradients use a link of a chosen bandwidth."""

from __future__ import annotations

import time

import torch.distributed as dist

from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.emulated import EmulatedLayer, over_link
from shardlab.mesh.axes import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.pipeline_parallel.builders import one_f_one_b
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.emulated import emulated_stages
from shardlab.pipeline_parallel.execution import execute

STAND_INS = 1000  # parameters whose gradients are really sent, in place of the whole model's


def emulated_seconds(
    mesh: Mesh,
    *,
    num_microbatches: int,
    forward_seconds: float,
    gradient_bytes: float,
    bytes_per_second: float,
    slower: float = 1.0,
) -> float:
    """Seconds of a 1F1B step followed by an all-reduce, measured on this rank and divided by `slower`.

    num_microbatches: in the whole batch, shared by the replicas. forward_seconds: one microbatch's forward through the
    whole model; a backward takes twice as long. gradient_bytes: of the whole model. slower: factor by which every sleep
    is lengthened, so that a busy machine keeps up. Raises ValueError if the replicas do not divide the microbatches.
    """
    if num_microbatches % mesh.dp:
        raise ValueError(
            f"{num_microbatches} microbatches cannot be split over {mesh.dp} replicas: use a multiple of {mesh.dp}"
        )
    groups = create_process_groups(mesh)
    schedule = one_f_one_b(mesh.pp, num_microbatches // mesh.dp)
    weights = EmulatedLayer(STAND_INS, forward_seconds=0.0, backward_seconds=0.0)
    share = weights.weight.nbytes / (gradient_bytes / mesh.pp)
    replicas = DataParallel(weights, group=groups.of("dp"), reduce=over_link(bytes_per_second * share / slower))
    for seconds in (0.0, slower * forward_seconds / mesh.pp):  # the first round only opens the connections
        stages = emulated_stages(schedule, dist.get_rank(groups.of("pp")), Durations(seconds, seconds, seconds))
        dist.barrier()
        began = time.perf_counter()
        execute(schedule, stages, group=groups.of("pp"), agreed=True)
        replicas.reduce_gradients()
    return (time.perf_counter() - began) / slower


def predicted_seconds(
    mesh: Mesh, *, num_microbatches: int, forward_seconds: float, gradient_bytes: float, bytes_per_second: float
) -> float:
    """The same by formula: m + p - 1 slots, each 1/p of a forward and a backward, then a ring all-reduce over dp."""
    slots = num_microbatches // mesh.dp + mesh.pp - 1
    sent = ring_all_reduce_bytes(mesh.dp, gradient_bytes / mesh.pp)
    return slots * 3 * forward_seconds / mesh.pp + sent / bytes_per_second
