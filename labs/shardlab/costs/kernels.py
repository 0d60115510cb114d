"""Seconds of one layer's forward for one microbatch on one rank: matrix products, attention, elementwise kernels.

A product takes its FLOPs at a share of the peak or its operands' bytes at the memory's speed, whichever is longer (the
roofline, Williams et al. 2009), so that narrow ones are slower a FLOP; elementwise kernels come on top.
"""

from typing import NamedTuple

from shardlab.costs.efficiency import Efficiency
from shardlab.costs.flops import attention_core_flops
from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.model import Transformer, attention_matrix_parameters, mlp_matrix_parameters


class Speed(NamedTuple):
    """What an accelerator reaches: FLOP/s in products and in attention, bytes a second, seconds to launch a layer."""

    matmul: float
    attention: float
    memory: float
    launch: float


def speed_of(gpu: Accelerator, efficiency: Efficiency, *, fp8: bool = False) -> Speed:
    """Peaks times their efficiency. Raises ValueError when fp8 is asked of an accelerator that has none."""
    if fp8 and not gpu.fp8_flops:
        raise ValueError(f"{gpu.name} has no fp8: use bf16, or an h100, h200 or b200")
    gain = 1 + efficiency.fp8 * (gpu.fp8_flops / gpu.bf16_flops - 1) if fp8 else 1.0
    return Speed(
        matmul=gpu.bf16_flops * efficiency.matmul(gpu.generation) * gain,
        attention=gpu.bf16_flops * efficiency.attention(gpu.generation),
        memory=gpu.memory_bandwidth * efficiency.memory,
        launch=efficiency.launch_seconds,
    )


def matmul_seconds(speed: Speed, tokens: float, weights: float, widths: float) -> float:
    """2 FLOPs a weight and token, or 2 bytes a weight and element in or out (`widths` a token): the longer."""
    return max(2 * weights * tokens / speed.matmul, 2 * (weights + widths * tokens) / speed.memory)


def attention_seconds(model: Transformer, layout: Layout, speed: Speed) -> float:
    """QK^T, softmax, AV. Fused: half the FLOPs, for the causal mask, and no scores in memory.

    Unfused: all FLOPs, and 13 bytes a score: written once, read and written by softmax and by dropout with its mask,
    read once.
    """
    tokens = layout.microbatch * model.sequence / layout.cp
    flops = attention_core_flops(model, causal=model.flash) * tokens / layout.tp
    if model.flash:
        return flops / speed.attention
    scores = model.heads / layout.tp * model.sequence * tokens
    return flops / speed.matmul + 13 * scores / speed.memory


def elementwise_seconds(model: Transformer, layout: Layout, speed: Speed, width: float) -> float:
    """Bytes of norms (read, write: 4h each), residuals (6h each, a mask more with dropout), activation and rotation."""
    tokens = layout.microbatch * model.sequence / layout.cp
    whole = (20 + (2 if model.bias else 0)) * model.hidden / (layout.tp if layout.sequence_parallel else 1)
    rotated = 0 if model.positions else 4 * (model.query_width + model.kv_width)
    split = (6 if model.gated else 4) * width + rotated
    return tokens * (whole + split / layout.tp) / speed.memory


def attention_block_seconds(model: Transformer, layout: Layout, speed: Speed) -> float:
    """The projections around attention, and attention."""
    tokens = layout.microbatch * model.sequence / layout.cp
    widths = 2 * model.hidden + (model.query_width + 2 * model.kv_width + model.value_width) / layout.tp
    projections = matmul_seconds(speed, tokens, attention_matrix_parameters(model) / layout.tp, widths)
    return projections + attention_seconds(model, layout, speed)


def dense_layer_seconds(model: Transformer, layout: Layout, speed: Speed) -> float:
    """The forward of a dense layer; never less than the launch of its kernels."""
    tokens = layout.microbatch * model.sequence / layout.cp
    widths = 2 * model.hidden + (3 if model.gated else 2) * model.ffn / layout.tp
    mlp = matmul_seconds(speed, tokens, mlp_matrix_parameters(model, model.ffn) / layout.tp, widths)
    around = elementwise_seconds(model, layout, speed, model.ffn)
    return max(speed.launch, attention_block_seconds(model, layout, speed) + mlp + around)


def moe_layer_seconds(model: Transformer, layout: Layout, speed: Speed) -> float:
    """The forward of a layer of experts, balanced: k tokens of each, every local expert's weights read once.

    Tokens are permuted and brought back: 4 passes over k rows of h.
    """
    tokens = layout.microbatch * model.sequence / layout.cp
    rows = tokens / layout.tp * model.active_experts
    local = mlp_matrix_parameters(model, model.expert_ffn) * model.experts / layout.ep
    per_row = mlp_matrix_parameters(model, model.expert_ffn)
    widths = 2 * model.hidden + (3 if model.gated else 2) * model.expert_ffn
    routed = max(2 * per_row * rows / speed.matmul, 2 * (local + widths * rows) / speed.memory)
    permuted = 4 * 2 * 2 * model.hidden * rows / speed.memory
    shared = mlp_matrix_parameters(model, model.expert_ffn * model.shared_experts) / layout.tp
    beside = matmul_seconds(speed, tokens, shared, 2 * model.hidden) if model.shared_experts else 0.0
    around = elementwise_seconds(model, layout, speed, model.active_experts * model.expert_ffn)
    return max(2 * speed.launch, attention_block_seconds(model, layout, speed) + routed + permuted + beside + around)


def output_seconds(model: Transformer, layout: Layout, speed: Speed) -> float:
    """The output layer and the loss: logits are read and written in fp32 some 4 times."""
    tokens = layout.microbatch * model.sequence / layout.cp
    vocab = model.vocab / layout.tp
    return (
        matmul_seconds(speed, tokens, model.hidden * vocab, model.hidden + vocab) + 16 * tokens * vocab / speed.memory
    )
