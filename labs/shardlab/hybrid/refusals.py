"""Unsupported combinations, rejected before anything is built or sent. Each message says what works instead."""

from __future__ import annotations

from functools import partial

import torch.distributed as dist
from torch import nn

from shardlab.costs.models.model import divisors
from shardlab.hybrid.part import Whole, layers_of
from shardlab.hybrid.settings import RECOMPUTE, Settings
from shardlab.hybrid.weights import NewOptimizer
from shardlab.mesh.axes import Mesh
from shardlab.model.gpt import GPTConfig
from shardlab.model.moe import MoEConfig
from shardlab.pipeline_parallel.schedule import Kind, Schedule, all_actions, num_stages, stages_of_rank
from shardlab.ranks.agreement import first_difference

# ---- The model and the optimizer as text that is the same in every process, so that ranks can compare it -------------


def moe_of(whole: Whole) -> MoEConfig | None:
    """The configuration of a model's experts, or None for a dense model."""
    if isinstance(whole, nn.Module):
        return getattr(getattr(whole.blocks[0], "moe", None), "config", None)
    return getattr(whole, "moe", None)


def moe_text(moe: MoEConfig | None) -> str:
    """The expert configuration as text that is the same in every process."""
    if moe is None:
        return "none"
    choice = {name: value for name, value in vars(moe.choice).items() if isinstance(value, int | float | bool)}
    return (
        f"{choice} { ({name: v for name, v in vars(moe).items() if isinstance(v, int | float | bool)}) } {moe.capacity}"
    )


def optimizer_text(new_optimizer: NewOptimizer) -> str:
    """An optimizer as text; for a functools.partial, the class and its options."""
    if isinstance(new_optimizer, partial):
        return f"{getattr(new_optimizer.func, '__name__', '')} {sorted(new_optimizer.keywords.items())}"
    return getattr(new_optimizer, "__name__", type(new_optimizer).__name__)


# ---- Unsupported combinations ----------------------------------------------------------------------------------------


def check(whole: Whole, moe: MoEConfig | None, mesh: Mesh, settings: Settings, schedule: Schedule) -> None:
    """Raise ValueError for an unsupported combination, the same on every rank since all have the same arguments."""
    _check_sizes(settings)
    _check_schedule(schedule)
    layers_of(0, num_stages(schedule), whole.config.layers)
    _check_heads(whole, mesh, settings)
    _check_experts(moe, mesh)
    if moe is None and settings.bias_rate:
        raise ValueError(f"bias_rate = {settings.bias_rate}, but a model without experts has no router biases: use 0")
    _check_zero(whole, mesh, settings, schedule)


def check_same(whole: Whole, text: list[str], *, group: dist.ProcessGroup | None) -> None:
    """Raise the same ValueError on every rank if the ranks have different models, meshes or settings."""
    lines = [f"model {whole.config}", *text]
    if isinstance(whole, nn.Module):
        lines += [
            f"{name} {list(p.shape)} {p.dtype}, sum {p.double().sum():.17g}, trained {p.requires_grad}"
            for name, p in whole.named_parameters()
        ]
    if found := first_difference(lines, group=group):
        raise ValueError(
            f"rank {found.rank} has a different model or different settings from rank 0: {found.line}, but rank 0 has "
            f"{found.line_of_first}. Give every rank the same model, mesh, settings and optimizer."
        )


def check_length(length: int, config: GPTConfig, mesh: Mesh, *, splits_sequence: bool) -> None:
    """Raise ValueError if sequences exceed the learned positions, or if tp ranks cannot split a cp rank's part."""
    if not config.rope and length > config.sequence:
        raise ValueError(
            f"sequences of {length} tokens for a model with {config.sequence} positions: use {config.sequence} or fewer"
        )
    own = length // mesh.cp
    if splits_sequence and own % mesh.tp:
        each = mesh.cp * mesh.tp
        raise ValueError(
            f"{own} tokens on each of {mesh.cp} cp ranks cannot be split over tp = {mesh.tp}: use a sequence length of "
            f"{length // each * each or each} or {(length // each + 1) * each}"
        )


def _check_sizes(settings: Settings) -> None:
    if settings.zero not in (0, 1, 2, 3):
        raise ValueError(f"zero = {settings.zero!r}: use 0 (gradients are all-reduced), 1, 2 or 3")
    if settings.recompute not in RECOMPUTE:
        raise ValueError(f"recompute = {settings.recompute!r}: use one of {', '.join(RECOMPUTE)}")
    if settings.replicas > 1 and settings.zero == 0:
        raise ValueError(f"replicas = {settings.replicas}, but zero = 0 has no shards to copy: use zero = 1, 2 or 3")


def _check_schedule(schedule: Schedule) -> None:
    homes = [stage for rank in range(len(schedule)) for stage in stages_of_rank(schedule, rank)]
    if len(set(homes)) < len(homes):
        twice = next(stage for stage in homes if homes.count(stage) > 1)
        raise ValueError(
            f"stage {twice} is on two ranks, as in DualPipe: use a schedule that places each stage once, such as "
            "dualpipe_v"
        )


def _check_heads(whole: Whole, mesh: Mesh, settings: Settings) -> None:
    heads, kv_heads = whole.config.heads, whole.config.kv_heads or whole.config.heads
    fits = [ranks for ranks in divisors(heads) if kv_heads % ranks == 0 or ranks % kv_heads == 0]
    if mesh.tp not in fits:
        raise ValueError(
            f"{heads} heads and {kv_heads} key-value heads cannot be split over tp = {mesh.tp}: use a tp among {fits}"
        )
    width = 4 * whole.config.hidden
    if width % mesh.tp:
        fits = divisors(width)
        raise ValueError(f"an MLP of width {width} cannot be split over tp = {mesh.tp}: use a tp among {fits}")
    own = heads // mesh.tp, max(1, kv_heads // mesh.tp)
    if mesh.cp > 1 and (problem := settings.context.problem(*own, mesh.cp)):
        raise ValueError(problem)
    if mesh.cp > 1 and whole.config.dropout > 0 and not whole.config.flash:
        raise ValueError(
            f"dropout on attention scores (p = {whole.config.dropout}) is not supported with cp > 1: use flash=True"
        )


def _check_experts(moe: MoEConfig | None, mesh: Mesh) -> None:
    if moe is None:
        if mesh.ep > 1:
            raise ValueError(f"ep = {mesh.ep}, but the model has no experts: use ep = 1, or a MoEGPT")
        return
    experts = moe.choice.experts
    if experts % mesh.ep:
        raise ValueError(f"{experts} experts cannot be split over ep = {mesh.ep}: use an ep among {divisors(experts)}")
    if moe.width % mesh.expert_tp:
        raise ValueError(
            f"experts of width {moe.width} cannot be split over etp = {mesh.expert_tp}: "
            f"use an etp among {divisors(moe.width)}"
        )


def _check_zero(whole: Whole, mesh: Mesh, settings: Settings, schedule: Schedule) -> None:
    if settings.zero < 2:
        return
    if any(action.kind in (Kind.I, Kind.W) for action in all_actions(schedule)):
        raise ValueError(
            f"zero = {settings.zero} sends gradients from hooks of a full backward, but this schedule splits it into "
            "B and W: use zero = 0 or 1, or a schedule with full backwards (gpipe, one_f_one_b, interleaved)"
        )
    last = num_stages(schedule) - 1
    same_rank = any({0, last} <= {*stages_of_rank(schedule, rank)} for rank in range(len(schedule)))
    if whole.config.tied and last > 0 and same_rank:
        raise ValueError(
            f"zero = {settings.zero} does not support a tied embedding in two stages of one rank: use zero = 0 or 1, "
            "tied=False, or a schedule that places the first and the last stage on different ranks"
        )
