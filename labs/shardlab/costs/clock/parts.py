"""Costs of one microbatch: a layer's kernels and its messages by axis, the output layer, a send to the next stage."""

from functools import partial
from typing import NamedTuple

from shardlab.costs.axis_traffic import BF16
from shardlab.costs.clock.kernels import (
    Passes,
    attention_seconds,
    dense_layer_seconds,
    moe_layer_seconds,
    output_seconds,
    total,
)
from shardlab.costs.clock.messages import context_seconds, expert_seconds, hop_seconds, tensor_seconds
from shardlab.costs.clock.recomputation import norms_seconds, with_recomputation
from shardlab.costs.clock.setup import Setup
from shardlab.costs.clock.software import CURRENT, Software
from shardlab.costs.clock.speed import SUMMED_BYTES, Speed, speed_of
from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer


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
