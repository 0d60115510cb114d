"""Formulas for what this rank sends on each axis in a step of a recipe, to compare with the meter's counts.

The formulas per layer and microbatch are those of `costs`; the trainer knows which layers, neighbors and parameters
this rank has. They leave out messages that do not grow with the model (agreement on the batch, the loss, the norm, the
routers' loads) and what the embedding, the head and partial gradients send over tp, which matters for small models.
"""

from __future__ import annotations

import torch.distributed as dist

from shardlab.costs import traffic
from shardlab.costs.axis_traffic import BF16, cp_layer_bytes, cp_passes, ep_layer_bytes, tp_layer_bytes
from shardlab.costs.layout import Layout, Recompute
from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.hybrid.traffic import names
from shardlab.mesh.process_groups import GRADIENTS
from shardlab.pipeline_parallel.schedule import stages_of_rank
from shardlab.train.build import transformer_of
from shardlab.train.recipe import Recipe

BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}


def layout_of(recipe: Recipe, trainer: MeshTrainer) -> Layout:
    """The recipe as a layout for `costs`. It distinguishes schedules only by what they send and save."""
    mesh, step = trainer.mesh, recipe.step
    again: Recompute = "full" if step.recompute == "stage" else step.recompute  # type: ignore[assignment]
    return Layout(
        tp=mesh.tp,
        pp=mesh.pp,
        dp=mesh.dp,
        cp=mesh.cp,
        ep=mesh.ep,
        microbatch=step.batch // step.microbatches // mesh.dp,
        num_microbatches=step.microbatches,
        sequence_parallel=step.sequence_parallel and mesh.tp > 1,
        zero=step.zero,
        recompute=again,
        schedule="gpipe" if step.schedule == "gpipe" else "1f1b",
        context="ulysses" if step.context == "ulysses" else "ring",
    )


def predicted_by_axis(recipe: Recipe, trainer: MeshTrainer) -> dict[str, float]:
    """Bytes that this rank sends in a step, keyed by the names that `sent_by_axis` uses."""
    layout, model = layout_of(recipe, trainer), transformer_of(recipe)
    wide = BYTES[recipe.step.dtype] / BF16  # the formulas assume bf16
    layers = sum(len(part.blocks) for part in trainer.parts.values()) * layout.num_microbatches * wide
    again = 1 if layout.recompute == "full" else 0
    of_tp = tp_layer_bytes(model, layout) / (2 if model.experts else 1)  # MoE layers send nothing over tp
    by_axes = {
        ("tp",): layers * of_tp * (2 + again),
        ("cp",): layers * cp_layer_bytes(model, layout) * sum(cp_passes(layout)),
        ("ep",): layers * ep_layer_bytes(model, layout) * (2 + again),
        ("pp",): _between_stages(trainer, layout) * model.hidden * BYTES[recipe.step.dtype],
        GRADIENTS: _of_parameters(recipe, trainer, is_expert=False),
        ("edp",): _of_parameters(recipe, trainer, is_expert=True),
    }
    known, found = names(trainer.groups), {}
    for axes, num_bytes in by_axes.items():
        if num_bytes:
            name = next((name for made, name in known.items() if set(made) == set(axes)), "-".join(axes))
            found[name] = found.get(name, 0.0) + num_bytes
    return found


def _between_stages(trainer: MeshTrainer, layout: Layout) -> float:
    """The number of positions whose activations or gradients this rank sends to other ranks of its pipeline."""
    rank = dist.get_rank(trainer.groups.of("pp"))
    mine = {*stages_of_rank(trainer.schedule, rank)}
    forward = sum(stage + 1 not in mine for stage in mine if stage + 1 < trainer.num_stages)
    backward = sum(stage - 1 not in mine for stage in mine if stage > 0)
    tokens = layout.microbatch * trainer.config.sequence / layout.cp
    return (forward + backward) * layout.num_microbatches * tokens / (layout.tp if layout.sequence_parallel else 1)


def _of_parameters(recipe: Recipe, trainer: MeshTrainer, *, is_expert: bool) -> float:
    """Bytes to reduce gradients and gather weights over dp and cp, or over edp for experts."""
    numbers = sum(p.numel() for p, place in trainer.places.items() if place.is_expert == is_expert)
    mesh, zero, width = trainer.mesh, recipe.step.zero, BYTES[recipe.step.dtype]
    sharers = mesh.tp * mesh.cp * mesh.dp // (mesh.ep * mesh.expert_tp) if is_expert else mesh.dp * mesh.cp
    main = 8 if recipe.step.dtype == "float64" else 4  # bytes of a main gradient
    if zero == 0:
        return traffic.ring_all_reduce_bytes(sharers, numbers * main)
    microbatches = recipe.step.microbatches if zero > 1 else 1
    reduced = traffic.ring_reduce_scatter_bytes(sharers, numbers * (width if zero > 1 else main)) * microbatches
    gathers = 2 * microbatches if zero == 3 else 1
    return reduced + gathers * traffic.ring_all_gather_bytes(sharers, numbers * width)
