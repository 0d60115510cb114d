"""Costs of one microbatch: a layer's kernels, the output layer, and exposed communication by axis.

Communication is inside a layer, between stages, and of gradients and parameters.
"""

from functools import partial
from typing import NamedTuple

from shardlab.costs.axis_traffic import (
    BF16,
    activation_bytes_of,
    cp_layer_bytes,
    cp_passes,
    gathered_bytes_each,
    gathers_of,
    pp_boundary_bytes,
    reductions_of,
)
from shardlab.costs.clock.kernels import (
    Passes,
    attention_seconds,
    dense_layer_seconds,
    moe_layer_seconds,
    norms_seconds,
    output_seconds,
    tokens_of,
    total,
    with_recomputation,
)
from shardlab.costs.clock.setup import CURRENT, SUMMED_BYTES, Setup, Software, Speed, speed_of
from shardlab.costs.layout import Layout
from shardlab.costs.links import (
    Group,
    all_reduce_seconds,
    all_to_all_seconds,
    dispatch_seconds,
    group_of,
    neighbor_seconds,
    ring_seconds,
)
from shardlab.costs.memory.states import parameters_on_stage
from shardlab.costs.models.model import Transformer
from shardlab.costs.traffic import ring_all_gather_bytes


def exposed(communication: float, work: float, hidden: float) -> float:
    """Seconds that communication adds to work that runs at the same time.

    hidden: the share that overlaps, of whichever of the two is shorter.
    """
    return communication - hidden * min(communication, work)


def tensor_seconds(model: Transformer, layout: Layout, setup: Setup) -> float:
    """A layer's all-reduces per microbatch: 2 forward, 2 backward, 2 more with full recomputation."""
    group = group_of(setup.links, layout.tp)
    seconds = (4 + 2 * layout.again) * all_reduce_seconds(setup.links, group, activation_bytes_of(model, layout))
    return seconds * (1 - setup.efficiency.hidden) if layout.tensor_overlap else seconds


def context_seconds(model: Transformer, layout: Layout, setup: Setup, attention: float) -> float:
    """Time added to reach other ranks' keys: for a ring, what attention cannot hide; for gathers and all-to-alls, all.

    These run before or after the attention that needs them.
    """
    if layout.cp == 1:
        return 0.0
    links, group, passes = setup.links, group_of(setup.links, layout.cp, layout.tp), sum(cp_passes(layout))
    sent = passes * cp_layer_bytes(model, layout)
    if layout.context == "ring":
        seconds = neighbor_seconds(links, group, sent, messages=passes * (layout.cp - 1))
    elif layout.context == "ulysses":
        seconds = all_to_all_seconds(links, group, sent, calls=4 * passes)  # queries, keys, values, results
    else:
        seconds = ring_seconds(links, group, sent, calls=passes)
    return exposed(seconds, attention if layout.context == "ring" else 0.0, setup.efficiency.hidden)


def expert_seconds(model: Transformer, layout: Layout, setup: Setup) -> float:
    """A layer's all-to-alls per microbatch: dispatch and combine, forward and backward, plus a recomputed forward's.

    DualPipe overlaps those of one microbatch with the layers of another (arXiv 2412.19437, section 3.2.1).
    """
    if layout.ep == 1 or not model.moe_layers:
        return 0.0
    tokens = tokens_of(model, layout) / layout.tp
    group = group_of(setup.links, layout.ep)
    once = dispatch_seconds(setup.links, group, BF16 * tokens * model.hidden, model.active_experts)
    seconds = (4 + 2 * layout.again) * once * setup.imbalance * model.moe_layers / model.layers
    hides = setup.software.expert_overlap or layout.schedule == "dualpipe"
    return seconds * (1 - setup.efficiency.hidden) if hides else seconds


def hop_seconds(model: Transformer, layout: Layout, setup: Setup) -> float:
    """Seconds to send one activation to the next stage; only the exposed part if there are chunks to run meanwhile."""
    whole = layout.sequence_parallel or not layout.scatter_gather
    sent = pp_boundary_bytes(model, layout) / (1 if whole else layout.tp)
    seconds = neighbor_seconds(setup.links, _stages(layout, setup), sent)
    return seconds * (1 - setup.efficiency.hidden) if layout.overlap and layout.virtual > 1 else seconds


def tied_seconds(model: Transformer, layout: Layout, setup: Setup) -> float:
    """The all-reduce that keeps the copies of a tied embedding on the first and last stage equal, after everything
    else.

    Megatron's finalize_model_grads.py, _allreduce_word_embedding_grads; DeepSpeed's engine.py, _exec_reduce_tied_grads.
    """
    if not model.tied or layout.pp == 1:
        return 0.0
    copy = setup.gradient_bytes * model.vocab * model.hidden / layout.tp
    return all_reduce_seconds(
        setup.links, group_of(setup.links, 2, (layout.pp - 1) * (layout.world // layout.pp)), copy
    )


def _stages(layout: Layout, setup: Setup) -> Group:
    return group_of(setup.links, layout.pp, layout.world // layout.pp)


def data_seconds(model: Transformer, layout: Layout, setup: Setup, work: float) -> float:
    """Reduction of gradients and gathers of parameters, minus what overlaps with the work.

    Without ZeRO, or if the software sums whole gradients despite it, an all-reduce, all in the gradients' format.
    One call for all gradients, or one per layer if they are to overlap. ZeRO-2 with a pipeline reduces as often as
    `gradient_rounds` says.

    Messages of every microbatch hide behind all of them, those of the last one behind that one.
    """
    links, cards = setup.links, 1 if setup.software.one_card else None
    calls = model.layers / layout.pp if layout.overlap or layout.zero == 3 else 1
    shard = parameters_on_stage(model, layout, 0)

    def one_way(bytes_each: float) -> float:
        dense = ring_all_gather_bytes(layout.state_sharers, bytes_each * shard.dense)
        experts = ring_all_gather_bytes(layout.expert_sharers, bytes_each * shard.experts)
        around = layout.world // layout.pp
        group = group_of(links, layout.state_sharers, layout.tp)
        seconds = ring_seconds(links, group, dense, calls=calls, cards=cards)
        if not experts:
            return seconds
        copies = group_of(links, layout.expert_sharers, around // layout.expert_sharers)
        return seconds + ring_seconds(links, copies, experts, calls=calls)

    reductions = gradient_rounds(layout)
    gathered = one_way(gathered_bytes_each(model, layout, setup.gradient_bytes))
    communication = reductions * one_way(setup.gradient_bytes) + gathers_of(layout) * gathered
    if layout.zero > 0 and setup.software.reduces_whole:
        communication += reductions * one_way(setup.gradient_bytes)
    if not layout.overlap:
        return communication
    return exposed(communication, work * reductions, setup.efficiency.hidden)


def gradient_rounds(layout: Layout) -> int:
    """How often per step gradients are reduced by a program that minimizes whole gradients in memory.

    With ZeRO-2 and a pipeline, interleaved chunks run p microbatches in a row, after which a chunk's gradients can be
    sharded: m/p times (Llama 3, arXiv 2407.21783, section 3.3.2). A single chunk per rank alternates with forwards, so
    each microbatch is reduced separately.
    """
    if layout.zero == 2 and layout.pp > 1:
        return layout.num_microbatches // (layout.pp if layout.virtual > 1 else 1)
    return reductions_of(layout)


class Parts(NamedTuple):
    """Passes of a layer, averaged over dense and expert layers, and of the output layer.

    hop: exposed seconds to send one activation to the next stage, or its gradient back.
    """

    kernels: Passes
    tensor: Passes
    context: Passes
    expert: Passes
    output: Passes
    hop: float


def parts_of(model: Transformer, layout: Layout, setup: Setup) -> Parts:
    """Costs on accelerators with known peaks. A recomputed forward repeats its messages in the backward.

    Raises ValueError for a float32 model, as there are no float32 peaks here.
    """
    if model.number_bytes != BF16:
        raise ValueError(
            f"{model.name} has number_bytes = {model.number_bytes}, but only 16-bit peaks of {setup.gpu.name} are "
            f"known: use number_bytes = 2, or --here on a CPU"
        )
    software, summed = setup.software, summed_bytes(layout, setup.software, setup.gradient_bytes)
    speed = speed_of(setup.gpu, setup.efficiency, fp8=setup.fp8, software=software, summed=summed)
    # the output layer is in half precision even if the layers are in fp8
    half_precision = speed_of(setup.gpu, setup.efficiency, software=software, summed=summed)
    attention = attention_seconds(model, layout, speed).both
    forward = 1 / (2 + layout.again)
    tensor, context, expert = (
        Passes(forward * seconds, (1 - forward) * seconds)
        for seconds in (
            tensor_seconds(model, layout, setup),
            context_seconds(model, layout, setup, attention),
            expert_seconds(model, layout, setup),
        )
    )
    return Parts(
        work_seconds(model, layout, speed, software, imbalance=setup.imbalance),
        tensor,
        context,
        expert,
        output_seconds(model, layout, half_precision),
        hop_seconds(model, layout, setup) if layout.pp > 1 else 0.0,
    )


def work_seconds(
    model: Transformer, layout: Layout, speed: Speed, software: Software = CURRENT, *, imbalance: float = 1.0
) -> Passes:
    """Seconds of a layer's forward, backward and recomputation, averaged over dense and expert layers."""
    moe = model.moe_layers / model.layers
    routed = (model.active_experts + model.shared_experts) * model.expert_ffn
    kinds = [(1 - moe, dense_layer_seconds, model.ffn), (moe, partial(moe_layer_seconds, imbalance=imbalance), routed)]
    return total(
        with_recomputation(
            layer(model, layout, speed), layout, software, norms_seconds(model, layout, speed, width)
        ).times(share)
        for share, layer, width in kinds
        if share
    )


def summed_bytes(layout: Layout, software: Software, gradient_bytes: float) -> float:
    """Bytes per microbatch to write a weight's gradient and add it to the sum.

    ZeRO-3 sums shards after sending them. A separate kernel reads the gradient, reads the sum and writes it.
    """
    if layout.zero == 3:
        return BF16
    return BF16 + BF16 + 2 * gradient_bytes if software.gradients_apart else SUMMED_BYTES
