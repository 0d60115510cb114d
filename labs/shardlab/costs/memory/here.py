"""What the course's own trainer holds at the peak of a step on a CPU, in float32: `hybrid/`, operator by operator.

Three moments can be the fullest. At the loss there are three tensors as large as the logits: their log-softmax, its
gradient, and the gradient of the logits. In an MLP's backward there is the gradient of its hidden layer. Both come
beside all that is kept for the backward: at the top of a stage, before any of it has been used. And at the end of the
last of several microbatches there are its gradients, the sums so far, and the buckets that travel.
"""

from __future__ import annotations

from dataclasses import replace

from shardlab.costs.clock.calibrated import FP32
from shardlab.costs.layout import Layout
from shardlab.costs.memory.frameworks import COURSE
from shardlab.costs.memory.stage import MemoryBytes, in_flight_layers, mean_layer_bytes, recomputed_bytes
from shardlab.costs.memory.states import (
    StateBytes,
    held_parameters,
    layers_on_stage,
    state_bytes,
    zero_state_bytes,
)
from shardlab.costs.models.model import Transformer


def peak_here(model: Transformer, layout: Layout) -> MemoryBytes:
    """The fullest stage's bytes."""
    return max((memory_here(model, layout, stage) for stage in range(layout.pp)), key=lambda memory: memory.total)


def memory_here(model: Transformer, layout: Layout, stage: int = 0) -> MemoryBytes:
    """Bytes on one rank of a stage at the fullest moment of a step.

    A step begins without gradients: where a rank has one microbatch, none are there yet at that moment. ZeRO-3 holds
    two layers whole, and in a backward the gradients of one.
    """
    states, kept = _states(model, layout, stage), _kept(model, layout, stage)
    gathered = COURSE.gathered(model, layout, held_parameters(model, layout, stage).total)
    unit = gathered / 3  # of ZeRO-3: the framework counts two units' weights and one's gradients
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
    """One number for each of h at each position of a microbatch: what a block adds to."""
    return _whole(model, layout) / (layout.tp if layout.sequence_parallel else 1)


def _whole(model: Transformer, layout: Layout) -> float:
    """The same where sequence parallelism has gathered it."""
    return FP32 * layout.microbatch * model.sequence / layout.cp * model.hidden


def _states(model: Transformer, layout: Layout, stage: int) -> StateBytes:
    """Embedding and head are cut over tp only where the sequence is, and positions never."""
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
    """For the backward: of each layer in flight what its operators have saved; of each chunk behind it, its output.

    A norm saves two numbers per position, attention the logarithm of a sum for each head.
    """
    positions = layout.microbatch * model.sequence / layout.cp
    layer = mean_layer_bytes(model, layout, stage, COURSE)
    if layout.recompute != "full":
        layer += FP32 * positions * (4 + (model.heads + _copied(model, layout)) / layout.tp)
    layers = in_flight_layers(model, layout, stage)
    if layout.schedule == "zero-bubble":  # five gradients of h wait with each layer until W
        layer += 5 * _stream(model, layout) * _waiting(layout, stage) / min(layout.pp, layout.num_microbatches)
    chunks = layers / layers_on_stage(model, layout, stage) * layout.virtual
    sent = chunks * _stream(model, layout) if stage < layout.pp - 1 or layout.virtual > 1 else 0.0
    ends = 0.0
    if stage == layout.pp - 1 and (others := _waiting(layout, stage) - 1) > 0:
        ends = others * (2 * _stream(model, layout) + FP32 * positions * model.vocab)
    return layers * layer + sent + ends


def _copied(model: Transformer, layout: Layout) -> int:
    """Numbers per position that attention keeps beside queries, keys, values and its output.

    A ring sends keys and values, and keeps them as sent. RoPE turns queries and keys: both are kept, before and after.
    Turned queries lie by heads, and so does the kernel's output: the output's product keeps it by positions.
    """
    is_ring = layout.cp > 1 and layout.context != "ulysses"
    if model.positions:
        return 2 * model.kv_width if is_ring else 0
    return model.query_width + model.kv_width + (model.kv_width if is_ring else model.query_width)


def _at_loss(model: Transformer, layout: Layout) -> float:
    """The last norm's input and output, and three times the logits."""
    positions = layout.microbatch * model.sequence / layout.cp
    logits = 3 * FP32 * positions * model.vocab
    if not layout.sequence_parallel:
        return 2 * _stream(model, layout) + logits
    return 2 * _stream(model, layout) + max(_whole(model, layout) + logits / layout.tp, 5.5 * _whole(model, layout))


def _in_backward(model: Transformer, layout: Layout, stage: int) -> float:
    """In an MLP's: its gradient and the hidden layer's, and one weight's, not yet added; the layer, if done again.

    A backward in two parts keeps the hidden layer's gradient on both sides of its activation function.
    """
    width = model.ffn if not model.experts else model.active_experts * model.expert_ffn
    positions = layout.microbatch * model.sequence / layout.cp
    hidden = FP32 * positions * width * (2 if model.gated or _waiting(layout, stage) else 1) / layout.tp
    again = recomputed_bytes(model, layout, framework=COURSE)
    return _stream(model, layout) + hidden + FP32 * model.hidden * width / layout.tp + again


def _at_the_end(model: Transformer, layout: Layout, stage: int, kept: float) -> float:
    """All gradients in their buckets, and those of all layers but the first once more, not yet added.

    ZeRO-1 sums all of them at once: one tensor, its copy on the way and a slice of the sum. ZeRO-2's buckets go while
    layers are still to come.
    """
    held = FP32 * held_parameters(model, layout, stage).total
    but_one = held * (model.layers - 1) / model.layers
    if layout.zero == 1:
        return 2 * held + held / layout.state_sharers
    if layout.zero == 2 and layout.pp == 1:
        return but_one + kept
    return held + but_one


def _waiting(layout: Layout, stage: int) -> int:
    """Microbatches that wait for W in ZB-H1, with the one in I; the first stage has no I without its W."""
    return min(stage + 1, layout.num_microbatches) if layout.schedule == "zero-bubble" and stage else 0


def _messages(layout: Layout, stage: int) -> int:
    """Streams in buffers: the gradient that the next slot receives, and the activation; a gradient that leaves."""
    return (stage < layout.pp - 1) + 2 * (stage > 0)
