"""Build everything a recipe describes: model, settings, optimizer, and the trainer on this rank."""

from __future__ import annotations

from functools import partial

import torch

from shardlab.context_parallel.balance import contiguous, striped, zigzag
from shardlab.context_parallel.gathered import Gathered
from shardlab.context_parallel.ring import Ring
from shardlab.context_parallel.ulysses import Ulysses
from shardlab.costs.models.model import Transformer
from shardlab.hybrid import refusals
from shardlab.hybrid.layerwise import LayerByLayer
from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.hybrid.settings import Settings
from shardlab.hybrid.weights import NewOptimizer
from shardlab.mesh.process_groups import create_process_groups
from shardlab.model.gpt import GPTConfig
from shardlab.model.moe import MoEConfig
from shardlab.model.router import Choice
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.train.recipe import Recipe, check_batch, mesh_of

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
CONTEXT = {"ring": Ring(), "ulysses": Ulysses(), "gathered": Gathered()}
LAYOUTS = {"zigzag": zigzag, "contiguous": contiguous, "striped": striped}


def config_of(recipe: Recipe) -> GPTConfig:
    """The sizes of the model."""
    sizes = {name: getattr(recipe.model, name) for name in ("layers", "hidden", "heads", "sequence", "vocabulary")}
    ways = {name: getattr(recipe.model, name) for name in ("kv_heads", "tied", "gated", "rope", "dropout")}
    return GPTConfig(**sizes, **ways)


def experts_of(recipe: Recipe) -> MoEConfig | None:
    """The sizes of the MoE layers; None for a dense model."""
    given = recipe.experts
    if not given.experts:
        return None
    return MoEConfig(
        hidden=recipe.model.hidden,
        width=given.width,
        choice=Choice(given.experts, given.active),
        shared=given.shared,
        gated=given.gated,
        auxiliary=given.auxiliary,
        z=given.z,
    )


def transformer_of(recipe: Recipe) -> Transformer:
    """The same sizes in the form that the formulas in `costs` take."""
    model, given = recipe.model, recipe.experts
    return Transformer(
        name="recipe",
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads or model.heads,
        ffn=4 * model.hidden,
        vocab=model.vocabulary,
        sequence=model.sequence,
        gated=given.gated if given.experts else model.gated,
        bias=True,
        tied=model.tied,
        positions=0 if model.rope else model.sequence,
        norm_vectors=4,  # two LayerNorms
        experts=given.experts,
        active_experts=given.active if given.experts else 0,
        expert_ffn=given.width if given.experts else 0,
        shared_experts=given.shared if given.experts else 0,
    )


def settings_of(recipe: Recipe) -> Settings:
    """The training settings other than mesh and model."""
    step = recipe.step
    return Settings(
        num_microbatches=step.microbatches,
        schedule=BUILDERS[step.schedule],
        zero=step.zero,
        replicas=recipe.mesh.replicas,
        compute_dtype=torch.bfloat16 if step.dtype == "bfloat16" else None,
        sequence_parallel=step.sequence_parallel,
        split_vocabulary=step.split_vocabulary,
        context=CONTEXT[step.context],
        layout=LAYOUTS[step.layout],
        recompute=step.recompute,  # type: ignore[arg-type]
        max_norm=step.max_norm or None,
        bias_rate=recipe.experts.bias_rate if recipe.experts.experts else 0.0,
        seed=recipe.run.seed,
    )


def optimizer_of(recipe: Recipe) -> NewOptimizer:
    """The optimizer class with its options; the loop sets the learning rate before every step."""
    given = recipe.optimizer
    if given.name == "sgd":
        return partial(torch.optim.SGD, lr=recipe.lr.peak, momentum=given.momentum, weight_decay=given.weight_decay)
    betas = given.beta1, given.beta2
    return partial(torch.optim.AdamW, lr=recipe.lr.peak, betas=betas, eps=given.eps, weight_decay=given.weight_decay)


def check(recipe: Recipe, ranks: int) -> None:
    """Raise ValueError if `ranks` ranks cannot train the recipe; it only checks sizes, so no rank has to be started."""
    mesh, settings = mesh_of(recipe, ranks), settings_of(recipe)
    check_batch(recipe, mesh)
    moe = experts_of(recipe)
    schedule = settings.schedule(mesh.pp, settings.num_microbatches)
    refusals.check(LayerByLayer(config_of(recipe), moe), moe, mesh, settings, schedule)
    splits = settings.sequence_parallel or moe is not None
    if mesh.cp > 1:
        settings.layout(recipe.model.sequence, mesh.cp)
    refusals.check_length(recipe.model.sequence, config_of(recipe), mesh, splits_sequence=splits)


def trainer_of(recipe: Recipe, ranks: int) -> MeshTrainer:
    """This rank's trainer; call it on all ranks of the world. Each rank builds only its own stages of the model.

    Raises ValueError on every rank for an unsupported combination.
    """
    check(recipe, ranks)
    whole = LayerByLayer(config_of(recipe), experts_of(recipe), seed=recipe.run.seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if recipe.step.dtype == "float64" else torch.float32)
    try:
        return MeshTrainer(
            whole, create_process_groups(mesh_of(recipe, ranks)), optimizer_of(recipe), settings_of(recipe)
        )
    finally:
        torch.set_default_dtype(before)
