"""A plan as the flags of a training framework.

Megatron: megatron-core 0.16.1, whose configuration classes have these fields, and Megatron-LM's argument parser, which
spells them with dashes. torchtitan: its job configuration of August 2025 (torchtitan/config/job_config.py, commit
000204a4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.planner import Plan

MEGATRON, TORCHTITAN = "megatron-core 0.16.1", "torchtitan, commit 000204a4"
COMMUNICATION = {"ring": "p2p", "gathered": "all_gather", "ulysses": "a2a"}
SHARDING = {2: "optim_grads", 3: "optim_grads_params"}
ROTATION = {"ring": "alltoall", "gathered": "allgather"}
SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "zbv": "ZBVZeroBubble"}


def flags(framework: str, model: Transformer, plan: Plan, *, fp8: bool = False) -> dict:
    """Return {"for": the framework and its version, "flags": a list}.

    Raises ValueError for an unknown framework, or for a plan that the framework does not support; the message suggests
    a plan that it does.
    """
    if framework not in EXPORTS:
        raise ValueError(f"cannot export flags for {framework!r}: use {' or '.join(EXPORTS)}")
    version, write = EXPORTS[framework]
    return {"for": version, "flags": write(model, plan, fp8)}


def megatron(model: Transformer, plan: Plan, fp8: bool) -> list[str]:
    """Flags of Megatron-LM's pretrain_gpt.py that describe the plan, without the model's sizes."""
    layout = plan.layout
    if layout.schedule != "1f1b" and layout.pp > 1:
        raise ValueError(f"{MEGATRON} has no schedule {layout.schedule}: plan with --schedule 1f1b")
    if layout.zero == 2 and layout.pp > 1:
        raise ValueError(f"{MEGATRON} does not shard gradients with a pipeline: plan with --pipeline-zero 1")
    said = [
        f"--tensor-model-parallel-size {layout.tp}",
        f"--pipeline-model-parallel-size {layout.pp}",
        f"--context-parallel-size {layout.cp}",
        f"--micro-batch-size {layout.microbatch}",
        f"--global-batch-size {layout.sequences_per_step}",
        f"--seq-length {model.sequence}",
        "--bf16",
        "--accumulate-allreduce-grads-in-fp32",
    ]
    if layout.pp > 1:
        said.append(f"--pipeline-model-parallel-layout '{megatron_layout(plan.cut)}'")
    if layout.sequence_parallel:
        said.append("--sequence-parallel")
    if layout.cp > 1:
        said.append(f"--cp-comm-type {COMMUNICATION[layout.context]}")
    if model.experts:
        said += [f"--expert-model-parallel-size {layout.ep}", "--expert-tensor-parallel-size 1"]
    if layout.zero == 1:
        said.append("--use-distributed-optimizer")
    if layout.zero > 1:
        said += ["--use-megatron-fsdp", f"--data-parallel-sharding-strategy {SHARDING[layout.zero]}"]
    if layout.dp > 1:
        said += ["--overlap-grad-reduce", *(["--overlap-param-gather"] if layout.zero else [])]
    return [*said, *_megatron_recompute(model, layout), *(["--fp8-format hybrid"] if fp8 else [])]


def megatron_layout(cut: Sequence[int]) -> str:
    """Layers of each chunk in Megatron's notation, with equal neighbors grouped: "Ett|(tt|)*6tL"."""
    first, last = (f"E{_layers(cut[0])}|", f"{_layers(cut[-1])}L")
    middle = ""
    for size, run in groupby(cut[1:-1]):
        middle += f"({'t' * size}|)*{len(list(run))}"
    return first + middle + last


def _layers(number: int) -> str:
    return "t" * number


def _megatron_recompute(model: Transformer, layout: Layout) -> list[str]:
    if layout.recompute == "none":
        return []
    if layout.recompute == "full":
        each = layout.recomputed[0] if layout.recomputed else 1
        method = "block" if layout.recomputed else "uniform"
        return ["--recompute-granularity full", f"--recompute-method {method}", f"--recompute-num-layers {each}"]
    if layout.recompute == "selective":
        return ["--recompute-granularity selective", "--recompute-modules core_attn"]
    if not model.experts:
        raise ValueError(
            f"{MEGATRON} cannot recompute only the activation function of a dense MLP: "
            "plan with --recompute none --recompute full"
        )
    modules = ["layernorm", "moe_act", *(["mla_up_proj"] if model.latent else [])]
    return ["--recompute-granularity selective", f"--recompute-modules {' '.join(modules)}"]


def torchtitan(model: Transformer, plan: Plan, fp8: bool) -> list[str]:
    """Flags of torchtitan's train.py that describe the plan. Its FSDP always shards gradients with optimizer states."""
    layout = plan.layout
    if layout.recompute == "norms" or layout.recomputed:
        raise ValueError(f"{TORCHTITAN}, recomputes single operations or all layers: plan with --recompute none")
    if layout.cp > 1 and layout.context == "ulysses":
        raise ValueError(f"{TORCHTITAN}, does not support Ulysses, only passing keys and values around: use --cp 1")
    shard, copies = (layout.dp, 1) if layout.zero else (1, layout.dp)
    said = [
        f"--training.seq_len {model.sequence}",
        f"--training.local_batch_size {layout.microbatch * (layout.num_microbatches if layout.pp > 1 else 1)}",
        f"--training.global_batch_size {layout.sequences_per_step}",
        f"--parallelism.data_parallel_replicate_degree {copies}",
        f"--parallelism.data_parallel_shard_degree {shard}",
        f"--parallelism.fsdp_reshard_after_forward {'always' if layout.zero == 3 else 'never'}",
        f"--parallelism.tensor_parallel_degree {layout.tp}",
        f"--parallelism.pipeline_parallel_degree {layout.pp}",
        f"--parallelism.context_parallel_degree {layout.cp}",
        f"--activation_checkpoint.mode {layout.recompute}",
    ]
    if layout.cp > 1:
        said.append(f"--parallelism.context_parallel_rotate_method {ROTATION[layout.context]}")
    if model.experts:
        said.append(f"--parallelism.expert_parallel_degree {layout.ep}")
    if layout.pp > 1:
        said += _torchtitan_pipeline(plan)
    return [*said, *(["--model.converters float8"] if fp8 else [])]


def _torchtitan_pipeline(plan: Plan) -> list[str]:
    layout = plan.layout
    name = "Interleaved1F1B" if layout.virtual > 1 else SCHEDULES.get(layout.schedule)
    if name is None:
        raise ValueError(f"{TORCHTITAN}, has no schedule {layout.schedule}: plan with --schedule 1f1b --schedule zbv")
    begins = [sum(plan.cut[:chunk]) for chunk in range(1, len(plan.cut))]
    layers = sum(plan.cut)
    points = ",".join("norm" if begin == layers else f"layers.{begin}" for begin in begins)
    return [
        f"--parallelism.pipeline_parallel_schedule {name}",
        f"--parallelism.pipeline_parallel_microbatch_size {layout.microbatch}",
        f"--parallelism.pipeline_parallel_split_points {points}",
    ]


EXPORTS: dict[str, tuple[str, Callable[[Transformer, Plan, bool], list[str]]]] = {
    "megatron": (MEGATRON, megatron),
    "torchtitan": (TORCHTITAN, torchtitan),
}
