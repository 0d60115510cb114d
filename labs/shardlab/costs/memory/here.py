"""Memory of the course's own trainer (`hybrid/`) at the peak of a step on a CPU in float32, operator by operator.

The peak is at one of three moments. At the loss there are three tensors as large as the logits: their log-softmax, its
gradient, and the gradient of the logits. In an MLP's backward there is the gradient of its hidden layer. Both occur at
the top of a stage, while everything kept for the backward is still there. At the end of the last of several
microbatches there are its gradients, the sums so far, and the buckets being sent.
"""

from __future__ import annotations

from dataclasses import replace

from shardlab.costs.clock.calibrated import FP32
from shardlab.costs.layout import Layout
from shardlab.costs.memory.frameworks import COURSE
from shardlab.costs.memory.stage import MemoryBytes, in_flight_layers, mean_layer_bytes, recomputed_bytes
from shardlab.costs.memory.states import StateBytes, held_parameters, layers_on_stage, state_bytes, zero_state_bytes
from shardlab.costs.models.model import Transformer


def peak_here(model: Transformer, layout: Layout) -> MemoryBytes:
    """Memory of the fullest stage."""
    return max((memory_here(model, layout, stage) for stage in range(layout.pp)), key=lambda memory: memory.total)


def memory_here(model: Transformer, layout: Layout, stage: int = 0) -> MemoryBytes:
    """Bytes on one rank of a stage at the peak of a step.

    A step starts without gradients: with one microbatch per rank there are none yet at the peak. ZeRO-3 holds two whole
    layers and, in the backward, the gradients of one.
    """
    states, kept = _states(model, layout, stage), _kept(model, layout, stage)
    gathered = COURSE.gathered(model, layout, held_parameters(model, layout, stage).total)
    unit = gathered / 3  # of ZeRO-3: the framework counts two units' weights and one unit's gradients
    backward = _in_backward(model, layout, stage) + unit
    at_loss = _at_loss(model, layout) if stage == layout.pp - 1 else 0.0
    buffers = _messages(layout, stage) * _stream(model, layout)
    if layout.num_microbatches == 1:
        states = replace(states, gradients=max(0.0, states.gradients - kept))
    else:
        buffers = max(buffers, _at_the_end(model, layout, stage, kept) - kept - max(at_loss, backward))
    return MemoryBytes(
        states=states,
        activations=kept + min(at_loss, backward),
        output=max(0.0, at_loss - backward),
        gathered=2 * unit,
        buffers=max(0.0, backward - at_loss) + buffers,
    )


def _stream(model: Transformer, layout: Layout) -> float:
    """One number for each of h at each position of a microbatch: the residual stream."""
    return _whole(model, layout) / (layout.tp if layout.sequence_parallel else 1)


def _whole(model: Transformer, layout: Layout) -> float:
    """The same after sequence parallelism has gathered it."""
    return FP32 * layout.microbatch * model.sequence / layout.cp * model.hidden


def _states(model: Transformer, layout: Layout, stage: int) -> StateBytes:
    """Embedding and head are split over tp only with sequence parallelism, learned positions never."""
    states = state_bytes(model, layout, stage, gradient_bytes=FP32)
    first, last = stage == 0, stage == layout.pp - 1
    tables = first + (last and not (first and model.tied))
    whole = first * model.positions + (0 if layout.sequence_parallel else tables * model.vocab)
    more = zero_state_bytes(
        whole * model.hidden * (1 - 1 / layout.tp), layout.state_sharers, layout.zero, FP32, weight_bytes=FP32
    )
    return StateBytes(
        states.parameters + more.parameters, states.gradients + more.gradients, states.optimizer + more.optimizer
    )


def _kept(model: Transformer, layout: Layout, stage: int) -> float:
    """Bytes for the backward: saved tensors of each layer in flight, and the output of each chunk that is followed by
    one.

    A norm saves two numbers per position, attention the logarithm of a sum per head.
    """
    positions = layout.microbatch * model.sequence / layout.cp
    layer = mean_layer_bytes(model, layout, stage, COURSE)
    if layout.recompute != "full":
        layer += FP32 * positions * (4 + (model.heads + _copied(model, layout)) / layout.tp)
    layers = in_flight_layers(model, layout, stage)
    if layout.schedule == "zero-bubble":  # each layer keeps five gradients of width h until W
        layer += 5 * _stream(model, layout) * _waiting(layout, stage) / min(layout.pp, layout.num_microbatches)
    chunks = layers / layers_on_stage(model, layout, stage) * layout.virtual
    sent = chunks * _stream(model, layout) if stage < layout.pp - 1 or layout.virtual > 1 else 0.0
    ends = 0.0
    if stage == layout.pp - 1 and (others := _waiting(layout, stage) - 1) > 0:
        ends = others * (2 * _stream(model, layout) + FP32 * positions * model.vocab)
    return layers * layer + sent + ends


def _copied(model: Transformer, layout: Layout) -> int:
    """Numbers per position that attention keeps in addition to queries, keys, values and output.

    A ring sends keys and values and keeps them as sent. RoPE rotates queries and keys: both versions are kept. Rotated
    queries are stored by head, and so is the kernel's output; the output projection keeps it by position.
    """
    is_ring = layout.cp > 1 and layout.context != "ulysses"
    if model.positions:
        return 2 * model.kv_width if is_ring else 0
    return model.query_width + model.kv_width + (model.kv_width if is_ring else model.query_width)


def _at_loss(model: Transformer, layout: Layout) -> float:
    """The last norm's input and output, plus three times the logits."""
    positions = layout.microbatch * model.sequence / layout.cp
    logits = 3 * FP32 * positions * model.vocab
    if not layout.sequence_parallel:
        return 2 * _stream(model, layout) + logits
    return 2 * _stream(model, layout) + max(_whole(model, layout) + logits / layout.tp, 5.5 * _whole(model, layout))


def _in_backward(model: Transformer, layout: Layout, stage: int) -> float:
    """Extra bytes in an MLP's backward: its gradient, the hidden layer's, one new weight gradient, and recomputation.

    A backward in two parts keeps the hidden layer's gradient on both sides of its activation function.
    """
    width = model.ffn if not model.experts else model.active_experts * model.expert_ffn
    positions = layout.microbatch * model.sequence / layout.cp
    hidden = FP32 * positions * width * (2 if model.gated or _waiting(layout, stage) else 1) / layout.tp
    again = recomputed_bytes(model, layout, framework=COURSE)
    return _stream(model, layout) + hidden + FP32 * model.hidden * width / layout.tp + again


def _at_the_end(model: Transformer, layout: Layout, stage: int, kept: float) -> float:
    """All gradients in their buckets, plus the new ones of all layers but the first.

    ZeRO-1 reduces them all at once: one tensor, its copy being sent and a shard of the sum. ZeRO-2's buckets are freed
    while there are still layers to come.
    """
    held = FP32 * held_parameters(model, layout, stage).total
    but_one = held * (model.layers - 1) / model.layers
    if layout.zero == 1:
        return 2 * held + held / layout.state_sharers
    if layout.zero == 2 and layout.pp == 1:
        return but_one + kept
    return held + but_one


def _waiting(layout: Layout, stage: int) -> int:
    """Microbatches waiting for W in ZB-H1, including the one in I; on the first stage I and W run together."""
    return min(stage + 1, layout.num_microbatches) if layout.schedule == "zero-bubble" and stage else 0


def _messages(layout: Layout, stage: int) -> int:
    """Streams in buffers: the gradient for the next slot, the activation, and an outgoing gradient."""
    return (stage < layout.pp - 1) + 2 * (stage > 0)
