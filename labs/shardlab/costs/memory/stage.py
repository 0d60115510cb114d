"""Activations of one rank and its total memory, in bytes.

Symbols (arXiv 2205.05198): s sequence, b microbatch, h hidden, a heads, L layers, V vocab, t tensor and p pipeline
size, m microbatches, v chunks per stage. Activations take 2 bytes per element in bf16, dropout masks 1, logits 4.
"""

from dataclasses import dataclass
from functools import lru_cache

from shardlab.costs.context import extra_kv_blocks
from shardlab.costs.layout import Layout, Recompute
from shardlab.costs.memory.frameworks import MEGATRON, BufferInputs, Framework
from shardlab.costs.memory.states import (
    StateBytes,
    ends_held,
    held_parameters,
    layers_on_stage,
    moe_layers_on_stage,
    state_bytes,
)
from shardlab.costs.models.model import Transformer


@dataclass(frozen=True)
class MemoryBytes:
    """Bytes that one rank holds at the peak of a step."""

    states: StateBytes
    activations: float
    output: float  # logits, and tensors before and after the layers
    gathered: float  # whole units held by ZeRO-3
    buffers: float = 0.0  # of the framework, see `frameworks`

    @property
    def total(self) -> float:
        return self.states.total + self.activations + self.output + self.gathered + self.buffers


def gpt_layer_activation_bytes(
    s: int, b: int, h: int, a: int, t: int = 1, *, sequence_parallel: bool = False, recompute: str = "none"
) -> float:
    """One layer of GPT: the formulas of table 2 in arXiv 2205.05198, as printed.

    none: sbh(34 + 5as/h); with tensor parallelism sbh(10 + 24/t + 5as/ht); also with sequence parallelism
    sbh/t (34 + 5as/h); selective: the same without 5as/h; full: 2sbh.
    """
    if recompute == "full":
        return 2.0 * s * b * h
    scores = 0 if recompute == "selective" else 5 * a * s / h
    if sequence_parallel:
        return s * b * h / t * (34 + scores)
    return s * b * h * (10 + 24 / t + scores / t)


def layer_activation_bytes(
    model: Transformer, layout: Layout, *, moe: bool = False, framework: Framework = MEGATRON
) -> float:
    """One layer's activations per microbatch on one rank, for any width, heads and gate. For GPT they are table 2's.

    Per position: norms 4h, inputs of both blocks 4h, dropout masks 2h if there is dropout (10h in total, whole on every
    tensor-parallel rank unless the sequence is split); queries, keys, values and the output's input; the MLP's 2f
    before and 2f after GELU, 2f more for a gate (4f with two kernels); 5as for scores without flash attention.
    """
    positions = layout.microbatch * model.sequence / layout.cp
    sizes = layout.tp, _whole(layout), "none" if layout.again else layout.recompute
    kept = positions * _position_bytes(model, *sizes, moe, framework)
    if not layout.again:
        return kept
    return layout.again * model.number_bytes * positions * model.hidden / _whole(layout) + (1 - layout.again) * kept


@lru_cache(maxsize=4096)  # the planner asks for a few hundred of them millions of times
def _position_bytes(
    model: Transformer, t: int, whole_over: int, recompute: Recompute, moe: bool, framework: Framework
) -> float:
    h, cut, each = model.hidden, _inputs_cut(whole_over, framework), model.number_bytes
    wide = each / 2  # factor for terms that are given in bytes of bf16
    width = model.ffn
    if moe:
        width = model.active_experts * model.expert_ffn + model.shared_experts * model.expert_ffn
    if recompute == "selective" and framework.saves_products:
        return _products_bytes(model, t, whole_over, width)
    dropout = 2 * h if model.bias and framework.masks_dropout else 0
    inputs = 2 * wide * framework.input_bytes * h / cut
    whole = (2 * each * h + dropout) / whole_over + inputs
    split = each * (model.query_width + 2 * model.kv_width) + each * model.value_width
    if not model.flash and recompute != "selective":
        split += (2 * each + 1) * model.heads * model.sequence
    if moe:
        split += wide * framework.input_bytes * h * model.active_experts  # tokens as sent
        split += each * h * model.active_experts if framework.keeps_combined else 0  # and as returned
    split += wide * (framework.gate_bytes if model.gated else 4) * width
    if recompute == "norms":
        whole, split = whole - inputs + _latents(model), split - each * width - _projected(model)
    return whole + split / t


def _latents(model: Transformer) -> int:
    """Bytes per position from which latent attention recomputes its queries, keys and values."""
    return model.number_bytes * (model.latent.q_rank + model.latent.kv_rank + model.latent.rope) if model.latent else 0


def _projected(model: Transformer) -> int:
    """Bytes per position of the recomputed queries, keys and values."""
    return model.number_bytes * (model.query_width + 2 * model.kv_width) if model.latent else 0


def _products_bytes(model: Transformer, t: int, whole_over: int, width: float) -> float:
    """Bytes per position of the layer's input, the attention's output, and every second matmul: Wq, Wv, W1, W2."""
    split = model.query_width + model.kv_width + model.value_width + width
    return model.number_bytes * (2 * model.hidden / whole_over + split / t)


def _whole(layout: Layout) -> int:
    """Ranks over which sequence parallelism splits what tensor parallelism leaves whole."""
    return layout.tp if layout.sequence_parallel else 1


def _inputs_cut(whole_over: int, framework: Framework) -> int:
    """Ranks over which a block's input is split; if it is kept whole, the backward needs no second all-gather."""
    return 1 if framework.keeps_gathered else whole_over


def in_flight_layers(model: Transformer, layout: Layout, stage: int = 0) -> float:
    """Number of layers whose activations a stage holds at its peak.

    1F1B: min(p - i, m) microbatches of L/p layers; interleaved: L(1 + (p-1)/pv) on the first stage (arXiv 2205.05198,
    section 4.2.3); GPipe: all m. ZB-H1, until W: p on every stage (arXiv 2401.10241, section 3). ZBV: p on every rank,
    2p of half a stage (section 6). DualPipe: p+1 (arXiv 2412.19437, table 2).
    """
    layers, p, m = layers_on_stage(model, layout, stage), layout.pp, layout.num_microbatches
    if layout.schedule == "gpipe":
        return layers * m
    if layout.schedule in ("zbv", "dualpipe"):
        return layers * (min(p, m) if layout.schedule == "zbv" else p + 1)
    if layout.schedule == "zero-bubble":
        return layers * min(p, m)
    if layout.virtual > 1:
        chunks = 2 * (p - stage - 1) + (layout.virtual - 1) * p + 1
        return -(-model.layers // p) / layout.virtual * min(chunks, m * layout.virtual)
    return layers * min(p - stage, m)


def activation_bytes(model: Transformer, layout: Layout, stage: int = 0, *, framework: Framework = MEGATRON) -> float:
    """Activations of all microbatches in flight and, with full recomputation, of one recomputed layer.

    A framework that keeps a stage's output until its gradient arrives holds 2bsh more per microbatch.
    """
    layer = mean_layer_bytes(model, layout, stage, framework)
    return _activations(model, layout, stage, framework, layer, recomputed_bytes(model, layout, framework=framework))


def _activations(
    model: Transformer, layout: Layout, stage: int, framework: Framework, layer: float, again: float
) -> float:
    kept = in_flight_layers(model, layout, stage) * layer
    if framework.keeps_outputs and layout.pp > 1:
        boundary = model.number_bytes * layout.microbatch * model.sequence / layout.cp * model.hidden / _whole(layout)
        kept += boundary * min(layout.pp - stage, layout.num_microbatches)
    return kept + context_buffer_bytes(model, layout) + again


def context_buffer_bytes(model: Transformer, layout: Layout) -> float:
    """Keys and values of other ranks that one layer's attention holds: two blocks with a ring, otherwise all."""
    kv = 2 * model.number_bytes * layout.microbatch * model.sequence / layout.cp * model.kv_width / layout.tp
    return kv * extra_kv_blocks(layout.context, layout.cp)


def recomputed_bytes(model: Transformer, layout: Layout, *, framework: Framework = MEGATRON) -> float:
    """Activations of one layer that the backward recomputes under full recomputation."""
    if layout.recompute != "full":
        return 0.0
    positions = layout.microbatch * model.sequence / layout.cp
    return positions * _position_bytes(model, layout.tp, _whole(layout), "none", model.moe_layers > 0, framework)


def mean_layer_bytes(model: Transformer, layout: Layout, stage: int, framework: Framework) -> float:
    """Activations of one layer per microbatch, averaged over a stage's dense and expert layers."""
    moe = moe_layers_on_stage(model, layout, stage) / layers_on_stage(model, layout, stage)
    dense_layer = layer_activation_bytes(model, layout, framework=framework) if moe < 1 else 0.0
    moe_layer = layer_activation_bytes(model, layout, moe=True, framework=framework) if moe else 0.0
    return (1 - moe) * dense_layer + moe * moe_layer


def output_bytes(model: Transformer, layout: Layout, stage: int = 0, *, framework: Framework = MEGATRON) -> float:
    """Tensors around the layers: on the last stage norm, output's input and fp32 logits, 4sbh/t (1 + V/h) (section
    4.3).

    The logits count twice because their gradient exists at the same time. The first stage has the embedding's dropout
    mask, sbh per microbatch.
    """
    positions = layout.microbatch * model.sequence / layout.cp
    held = 0.0
    first, last = ends_held(layout, stage)
    if last:
        logit_bytes = framework.split_logit_bytes if layout.tp > 1 else framework.logit_bytes
        ends = model.number_bytes * model.hidden * (1 / _whole(layout) + 1 / _inputs_cut(_whole(layout), framework))
        held += positions * (ends + logit_bytes * model.vocab / layout.tp)
    if first and model.bias:
        held += positions * model.hidden / _whole(layout) * min(layout.pp, layout.num_microbatches)
    return held


def memory_of_stage(
    model: Transformer, layout: Layout, stage: int = 0, *, gradient_bytes: float = 2, framework: Framework = MEGATRON
) -> MemoryBytes:
    """Bytes on one rank of a stage at the peak of a step.

    The logits are freed before a layer is recomputed, so only the larger of the two counts.
    """
    parameters = held_parameters(model, layout, stage).total
    layer = mean_layer_bytes(model, layout, stage, framework)
    microbatch = layers_on_stage(model, layout, stage) * layer
    hidden = model.number_bytes * layout.microbatch * model.sequence / layout.cp * model.hidden
    again = recomputed_bytes(model, layout, framework=framework)
    return MemoryBytes(
        states=state_bytes(model, layout, stage, gradient_bytes=gradient_bytes),
        activations=_activations(model, layout, stage, framework, layer, again),
        output=max(0.0, output_bytes(model, layout, stage, framework=framework) - again),
        gathered=framework.gathered(model, layout, parameters),
        buffers=framework.buffers(BufferInputs(parameters, gradient_bytes, microbatch, hidden), layout),
    )


def peak_memory(
    model: Transformer, layout: Layout, *, gradient_bytes: float = 2, framework: Framework = MEGATRON
) -> MemoryBytes:
    """The fullest stage: either the first, which 1F1B fills, or the last, which has the logits.

    Also checks the first stage without dense layers, if the first one has some, or an embedding in place of a layer.
    """
    stages = {0, layout.pp - 1}
    if layout.pp > 2:
        stages.add(_first_full_stage(model, layout))
    held = [
        memory_of_stage(model, layout, stage, gradient_bytes=gradient_bytes, framework=framework) for stage in stages
    ]
    return max(held, key=lambda memory: memory.total)


def _first_full_stage(model: Transformer, layout: Layout) -> int:
    """The first stage with as many layers, and as many expert layers, as any before the last."""
    counts = [
        (layers_on_stage(model, layout, stage), moe_layers_on_stage(model, layout, stage))
        for stage in range(min(layout.pp - 1, model.dense_layers + 2))
    ]
    return counts.index(max(counts))
