"""Activations of one rank, and its memory in all, in bytes.

Symbols (arXiv 2205.05198): s sequence, b microbatch, h hidden, a heads, L layers, V vocab, t tensor and p pipeline
size, m microbatches, v chunks a stage. Activations take 2 bytes an element, dropout masks 1, logits 4.
"""

from dataclasses import dataclass, replace

from shardlab.costs.layout import Layout
from shardlab.costs.memory_states import StateBytes, state_bytes
from shardlab.costs.model import Transformer, dense_layer_parameters, moe_layer_parameters


@dataclass(frozen=True)
class MemoryBytes:
    """Bytes that one rank holds at the peak of a step."""

    states: StateBytes
    activations: float
    output: float  # logits and what surrounds the layers
    gathered: float  # units that ZeRO-3 holds whole

    @property
    def total(self) -> float:
        return self.states.total + self.activations + self.output + self.gathered


def gpt_layer_activation_bytes(
    s: int, b: int, h: int, a: int, t: int = 1, *, sequence_parallel: bool = False, recompute: str = "none"
) -> float:
    """One layer of GPT, table 2 of arXiv 2205.05198, the formulas as printed.

    none: sbh(34 + 5as/h); tensor parallel sbh(10 + 24/t + 5as/ht); and sequence parallel sbh/t (34 + 5as/h);
    selective: the same without 5as/h; full: 2sbh.
    """
    if recompute == "full":
        return 2.0 * s * b * h
    scores = 0 if recompute == "selective" else 5 * a * s / h
    if sequence_parallel:
        return s * b * h / t * (34 + scores)
    return s * b * h * (10 + 24 / t + scores / t)


def layer_activation_bytes(model: Transformer, layout: Layout, *, moe: bool = False) -> float:
    """One layer's activations of one microbatch on one rank, for any width, heads and gate; GPT's are table 2's.

    Per position: norms 4h, inputs of both blocks 4h, dropout masks 2h where there is dropout (10h: whole on every
    tensor-parallel rank unless the sequence is split); queries, keys, values and the output's input; what the MLP
    keeps: 2f before and 2f after GELU, 2f more for a gate; 5as scores without flash attention.
    """
    h, t = model.hidden, layout.tp
    positions = layout.microbatch * model.sequence / layout.cp
    if layout.recompute == "full":
        return 2.0 * positions * h / (t if layout.sequence_parallel else 1)
    dropout = 2 * h if model.bias else 0
    whole = (8 * h + dropout) / (t if layout.sequence_parallel else 1)
    split = 2 * (model.query_width + 2 * model.kv_width) + 2 * model.value_width
    if not model.flash and layout.recompute != "selective":
        split += 5 * model.heads * model.sequence
    width = model.ffn
    if moe:
        width = model.active_experts * model.expert_ffn + model.shared_experts * model.expert_ffn
        split += 2 * 2 * h * model.active_experts  # tokens as sent and as brought back
    split += (6 if model.gated else 4) * width
    return positions * (whole + split / t)


def in_flight_layers(model: Transformer, layout: Layout, stage: int = 0) -> float:
    """Layers' activations that a stage holds at its peak.

    1F1B: min(p - i, m) microbatches of L/p layers; interleaved: L(1 + (p-1)/pv) on the first stage (arXiv 2205.05198,
    section 4.2.3); GPipe: all m.
    """
    layers, p, m = -(-model.layers // layout.pp), layout.pp, layout.num_microbatches
    if layout.schedule == "gpipe":
        return layers * m
    if layout.virtual > 1:
        chunks = 2 * (p - stage - 1) + (layout.virtual - 1) * p + 1
        return layers / layout.virtual * min(chunks, m * layout.virtual)
    return layers * min(p - stage, m)


def activation_bytes(model: Transformer, layout: Layout, stage: int = 0) -> float:
    """All microbatches in flight, and under full recomputation one layer that is done again."""
    moe = model.moe_layers / model.layers
    dense_layer = layer_activation_bytes(model, layout) if moe < 1 else 0.0
    moe_layer = layer_activation_bytes(model, layout, moe=True) if moe else 0.0
    kept = in_flight_layers(model, layout, stage) * ((1 - moe) * dense_layer + moe * moe_layer)
    if layout.recompute == "full":
        kept += layer_activation_bytes(model, replace(layout, recompute="none"), moe=moe > 0)
    return kept


def output_bytes(model: Transformer, layout: Layout, stage: int = 0) -> float:
    """Around the layers: on the last stage norm, output's input and fp32 logits, 4sbh/t (1 + V/h) (section 4.3).

    Twice the logits: their gradient is there with them. On the first stage the embedding's dropout mask, sbh a
    microbatch.
    """
    positions = layout.microbatch * model.sequence / layout.cp
    whole = layout.tp if layout.sequence_parallel else 1
    held = 0.0
    if stage == layout.pp - 1:
        held += positions * (4 * model.hidden / whole + 2 * 4 * model.vocab / layout.tp)
    if stage == 0 and model.bias:
        held += positions * model.hidden / whole * min(layout.pp, layout.num_microbatches)
    return held


def gathered_bytes(model: Transformer, layout: Layout) -> float:
    """ZeRO-3 holds two layers whole, the one at work and the next: parameters and a layer's gradients, 2 bytes each."""
    if layout.zero < 3:
        return 0.0
    layer = moe_layer_parameters(model) / layout.ep if model.moe_layers else dense_layer_parameters(model)
    return 3 * 2 * layer / layout.tp


def memory_of_stage(model: Transformer, layout: Layout, stage: int = 0, *, gradient_bytes: float = 2) -> MemoryBytes:
    """Bytes on one rank of a stage at the peak of a step."""
    return MemoryBytes(
        states=state_bytes(model, layout, stage, gradient_bytes=gradient_bytes),
        activations=activation_bytes(model, layout, stage),
        output=output_bytes(model, layout, stage),
        gathered=gathered_bytes(model, layout),
    )


def peak_memory(model: Transformer, layout: Layout, *, gradient_bytes: float = 2) -> MemoryBytes:
    """The fullest of the first and the last stage: 1F1B fills the first, the logits the last."""
    ends = {0, layout.pp - 1}
    stages = [memory_of_stage(model, layout, stage, gradient_bytes=gradient_bytes) for stage in ends]
    return max(stages, key=lambda memory: memory.total)
