"""Seconds of messages that nothing hides, by axis: of a layer, between stages, of gradients and parameters."""

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
from shardlab.costs.clock.efficiency import HOP_SECONDS
from shardlab.costs.clock.kernels import tokens_of
from shardlab.costs.clock.links import boundary_bandwidth, dispatch_seconds, ring_bandwidth, ring_seconds
from shardlab.costs.clock.setup import Setup
from shardlab.costs.layout import Layout
from shardlab.costs.memory_states import parameters_on_stage
from shardlab.costs.model import Transformer
from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes


def exposed(communication: float, work: float, hidden: float) -> float:
    """Seconds that communication adds to the work it runs beside: what is longer, and what overlap does not hide."""
    return communication - hidden * min(communication, work)


def tensor_seconds(model: Transformer, layout: Layout, setup: Setup) -> float:
    """A layer's all-reduces of a microbatch: 2 forward, 2 backward, 2 more with full recomputation."""
    half = ring_all_gather_bytes(layout.tp, activation_bytes_of(model, layout))
    all_reduces = 4 + 2 * layout.again
    seconds = all_reduces * 2 * ring_seconds(setup.gpu, setup.efficiency, layout.tp, 1, half)
    return seconds * (1 - setup.efficiency.hidden) if layout.tensor_overlap else seconds


def context_seconds(model: Transformer, layout: Layout, setup: Setup, attention: float) -> float:
    """What reaching other ranks' keys adds: of a ring what attention cannot hide, of gathers and all-to-alls all.

    These come before the attention that needs them, or after it.
    """
    if layout.cp == 1:
        return 0.0
    sent = cp_layer_bytes(model, layout) * sum(cp_passes(layout))
    seconds = sent / ring_bandwidth(setup.gpu, setup.efficiency, layout.cp, layout.tp)
    return exposed(seconds, attention if layout.context == "ring" else 0.0, setup.efficiency.hidden)


def expert_seconds(model: Transformer, layout: Layout, setup: Setup) -> float:
    """A layer's all-to-alls of a microbatch: dispatch and combine, forward and backward, and the forward's again.

    DualPipe runs those of one microbatch behind the layers of another (arXiv 2412.19437, section 3.2.1).
    """
    if layout.ep == 1 or not model.moe_layers:
        return 0.0
    tokens = tokens_of(model, layout) / layout.tp
    once = dispatch_seconds(
        setup.gpu, setup.efficiency, layout.ep, 1, BF16 * tokens * model.hidden, model.active_experts
    )
    seconds = (4 + 2 * layout.again) * once * setup.imbalance * model.moe_layers / model.layers
    hides = setup.software.expert_overlap or layout.schedule == "dualpipe"
    return seconds * (1 - setup.efficiency.hidden) if hides else seconds


def hop_seconds(model: Transformer, layout: Layout, setup: Setup) -> float:
    """One activation to the next stage; with chunks to run meanwhile, the part of it that shows."""
    whole = layout.sequence_parallel or not layout.scatter_gather
    sent = pp_boundary_bytes(model, layout) / (1 if whole else layout.tp)
    seconds = sent / boundary_bandwidth(setup.gpu, setup.efficiency, layout) + HOP_SECONDS
    return seconds * (1 - setup.efficiency.hidden) if layout.overlap and layout.virtual > 1 else seconds


def tied_seconds(model: Transformer, layout: Layout, setup: Setup) -> float:
    """The all-reduce that keeps the copies of a tied embedding equal, on the first and the last stage, after all else.

    Megatron's finalize_model_grads.py, _allreduce_word_embedding_grads; DeepSpeed's engine.py, _exec_reduce_tied_grads.
    """
    if not model.tied or layout.pp == 1:
        return 0.0
    copy = setup.gradient_bytes * model.vocab * model.hidden / layout.tp
    return ring_all_reduce_bytes(2, copy) / boundary_bandwidth(setup.gpu, setup.efficiency, layout) + 2 * HOP_SECONDS


def data_seconds(model: Transformer, layout: Layout, setup: Setup, work: float) -> float:
    """Reduction of gradients and gathers of parameters, less what hides behind the work.

    Without ZeRO, and where the software sums whole gradients in spite of it, an all-reduce: both halves in the
    gradients' format. One call for all gradients, or one per layer where they are to overlap. ZeRO-2 beside a pipeline
    reduces as often as `gradient_rounds` says.

    What every microbatch sends hides behind all of them, what the last one sends behind that one.
    """
    gpu, efficiency, one_card = setup.gpu, setup.efficiency, setup.software.one_card
    calls = model.layers / layout.pp if layout.overlap or layout.zero == 3 else 1
    shard = parameters_on_stage(model, layout, 0)

    def one_way(bytes_each: float) -> float:
        dense = ring_all_gather_bytes(layout.state_sharers, bytes_each * shard.dense)
        experts = ring_all_gather_bytes(layout.expert_sharers, bytes_each * shard.experts)
        around = layout.world // layout.pp
        seconds = ring_seconds(gpu, efficiency, layout.state_sharers, layout.tp, dense, calls, one_card=one_card)
        if not experts:
            return seconds
        stride = around // layout.expert_sharers
        return seconds + ring_seconds(gpu, efficiency, layout.expert_sharers, stride, experts, calls)

    reductions = gradient_rounds(layout)
    gathered = one_way(gathered_bytes_each(model, layout, setup.gradient_bytes))
    communication = reductions * one_way(setup.gradient_bytes) + gathers_of(layout) * gathered
    if layout.zero > 0 and setup.software.reduces_whole:
        communication += reductions * one_way(setup.gradient_bytes)
    if not layout.overlap:
        return communication
    return exposed(communication, work * reductions, efficiency.hidden)


def gradient_rounds(layout: Layout) -> int:
    """How often in a step gradients are reduced by a program that never holds more of them whole than it must.

    ZeRO-2 beside a pipeline: interleaved chunks run p microbatches in a row, after which a chunk's gradients can be
    cut, m/p times (Llama 3, arXiv 2407.21783, section 3.3.2); one chunk per rank alternates with forwards, and each
    microbatch is reduced alone.
    """
    if layout.zero == 2 and layout.pp > 1:
        return layout.num_microbatches // (layout.pp if layout.virtual > 1 else 1)
    return reductions_of(layout)
