"""Check that the sections of a recipe fit each other and a number of ranks; errors say what would work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlab.costs.models.model import divisors
from shardlab.mesh.axes import Mesh, mesh_of_world

if TYPE_CHECKING:
    from shardlab.train.recipe import Recipe


def check(recipe: Recipe) -> None:
    """Raise ValueError for the first contradiction."""
    _check_model(recipe)
    _check_lengths(recipe)
    _check_files(recipe)
    if recipe.mesh.dp:
        check_batch(recipe, mesh_of(recipe, mesh_ranks(recipe)))


def mesh_ranks(recipe: Recipe) -> int:
    """How many ranks the mesh has; with dp = 0, those of one replica."""
    axes = recipe.mesh
    return max(1, axes.dp) * axes.pp * axes.cp * axes.tp


def mesh_of(recipe: Recipe, ranks: int) -> Mesh:
    """The mesh on `ranks` ranks. Raises ValueError that says what would work if it does not fit."""
    axes = recipe.mesh
    sizes = {"tp": axes.tp, "pp": axes.pp, "cp": axes.cp, "ep": axes.ep, "etp": axes.etp or None}
    if axes.dp == 0:
        return mesh_of_world(ranks, **sizes)
    mesh = Mesh(dp=axes.dp, **sizes)
    if mesh.world != ranks:
        raise ValueError(
            f"mesh: dp * pp * cp * tp = {axes.dp} * {axes.pp} * {axes.cp} * {axes.tp} = {mesh.world} ranks, but there "
            f"are {ranks}: start {mesh.world}, or leave mesh.dp out to compute it from the other axes"
        )
    return mesh


def on_ranks(recipe: Recipe, ranks: int) -> Recipe:
    """The recipe with dp and etp filled in for `ranks` ranks. Raises ValueError if the mesh does not fit."""
    mesh = mesh_of(recipe, ranks)
    return replace(recipe, mesh=replace(recipe.mesh, dp=mesh.dp, etp=mesh.expert_tp))


def check_batch(recipe: Recipe, mesh: Mesh) -> None:
    """Raise ValueError if the batch cannot be divided among replicas and microbatches."""
    batch, each = recipe.step.batch, mesh.dp * recipe.step.microbatches
    if batch % each:
        below, above = batch // each * each, (batch // each + 1) * each
        raise ValueError(
            f"step.batch = {batch} cannot be divided among {mesh.dp} replicas (mesh.dp) with "
            f"{recipe.step.microbatches} microbatches each: use a multiple of {each}, such as {below or above}"
            + (f" or {above}" if below else "")
        )


def _check_model(recipe: Recipe) -> None:
    model, experts = recipe.model, recipe.experts
    if model.hidden % model.heads:
        fits = [heads for heads in divisors(model.hidden) if heads <= 2 * model.heads]
        raise ValueError(
            f"model.heads = {model.heads} does not divide model.hidden = {model.hidden}: use one of {fits}"
        )
    if model.kv_heads and model.heads % model.kv_heads:
        raise ValueError(
            f"model.kv_heads = {model.kv_heads} does not divide model.heads = {model.heads}: use one of "
            f"{divisors(model.heads)}"
        )
    if model.rope and model.hidden // model.heads % 2:
        raise ValueError(
            f"model.rope rotates pairs of numbers, but a head has {model.hidden // model.heads}: use an even "
            "model.hidden / model.heads, or rope = false"
        )
    if experts.experts and experts.active > experts.experts:
        raise ValueError(
            f"experts.active = {experts.active} is more than experts.experts = {experts.experts}: use 1 to "
            f"{experts.experts}"
        )
    if not experts.experts and recipe.mesh.ep > 1:
        raise ValueError(f"mesh.ep = {recipe.mesh.ep} but the model has no experts: use 1, or give experts.experts")


def _check_lengths(recipe: Recipe) -> None:
    if recipe.lr.warmup > recipe.run.steps:
        steps = recipe.run.steps
        raise ValueError(f"lr.warmup = {recipe.lr.warmup} is longer than run.steps = {steps}: use 0 to {steps}")
    if recipe.mesh.replicas > 1 and recipe.step.zero == 0:
        raise ValueError(
            f"mesh.replicas = {recipe.mesh.replicas} needs sharded states, and step.zero = 0 has none: use "
            "step.zero = 1, 2 or 3"
        )


def _check_files(recipe: Recipe) -> None:
    if recipe.checkpoints.every and recipe.checkpoint_folder is None:
        raise ValueError(
            f"checkpoints.every = {recipe.checkpoints.every} needs a folder: give checkpoints.folder or run.folder"
        )
    if recipe.survival.on_lost_rank == "restart" and not recipe.checkpoints.every:
        raise ValueError(
            "survival.on_lost_rank = 'restart' needs a checkpoint to continue from, but checkpoints.every = 0: give "
            "checkpoints.every, such as 10"
        )
