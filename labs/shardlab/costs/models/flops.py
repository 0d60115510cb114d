"""Floating-point operations of a step: those the model needs, and those the hardware executes.

A multiply-add counts 2. Symbols: B sequences, L layers, h hidden, s sequence, V vocab (arXiv 2205.05198, appendix A).
The backward costs twice the forward, so a step costs 3 forwards; full recomputation makes it 4.
"""

from shardlab.costs.layout import Recompute
from shardlab.costs.models.model import (
    Transformer,
    attention_matrix_parameters,
    expert_parameters,
    mlp_matrix_parameters,
)


def layer_matmul_flops(model: Transformer, *, moe: bool = False) -> float:
    """Forward FLOPs per token in a layer's weight matrices: 2 per weight, 24h^2 in GPT; only the visited experts."""
    if moe:
        visited = model.active_experts + model.shared_experts
        mlp = visited * expert_parameters(model) + model.hidden * model.experts
    else:
        mlp = mlp_matrix_parameters(model, model.ffn)
    return 2.0 * (attention_matrix_parameters(model) + mlp)


def attention_core_flops(model: Transformer, *, causal: bool = False) -> float:
    """Forward FLOPs per token in QK^T and AV of one layer: 4sh in GPT, half of it if masked scores are skipped."""
    return 2.0 * model.sequence * (model.query_width + model.value_width) * (0.5 if causal else 1.0)


def output_flops(model: Transformer) -> float:
    """Forward FLOPs per token of the output layer: 2hV."""
    return 2.0 * model.hidden * model.vocab


def forward_flops_per_token(model: Transformer, *, causal: bool = False) -> float:
    """24Lh^2(1 + s/6h + V/12Lh) in GPT."""
    dense = model.layers - model.moe_layers
    matmuls = dense * layer_matmul_flops(model) if dense else 0.0
    if model.moe_layers:
        matmuls += model.moe_layers * layer_matmul_flops(model, moe=True)
    return matmuls + model.layers * attention_core_flops(model, causal=causal) + output_flops(model)


def model_flops_per_token(model: Transformer, *, causal: bool = False) -> float:
    """Three forwards: 72Lh^2(1 + s/6h + V/12Lh), arXiv 2205.05198 equation 7 for one token."""
    return 3 * forward_flops_per_token(model, causal=causal)


def hardware_flops_per_token(model: Transformer, recompute: Recompute, *, causal: bool = False) -> float:
    """Model FLOPs plus recomputation.

    full: every layer's forward again, 96Lh^2(1 + s/6h + V/16Lh) (arXiv 2104.04473, equation 3);
    selective: QK^T and AV again, 72Lh^2(1 + 2s/9h + V/12Lh), so 4 forwards of attention instead of 3. The hardware
    utilization printed in arXiv 2205.05198 corresponds to s/3h instead of 2s/9h, as if there were 6.
    """
    once = model_flops_per_token(model, causal=causal)
    if recompute == "full":
        return once + forward_flops_per_token(model, causal=causal) - output_flops(model)
    if recompute == "selective":
        return once + model.layers * attention_core_flops(model, causal=causal)
    return once


def utilisation(flops_per_token: float, tokens: float, seconds: float, num_gpus: int, peak_flops: float) -> float:
    """Share of the peak: MFU with model FLOPs (arXiv 2204.02311, appendix B), HFU with hardware FLOPs.

    Raises ValueError unless seconds, GPUs and peak are positive.
    """
    if min(seconds, num_gpus, peak_flops) <= 0:
        raise ValueError(f"{seconds} s on {num_gpus} GPUs of {peak_flops} FLOP/s: use numbers above 0")
    return flops_per_token * tokens / (seconds * num_gpus * peak_flops)
