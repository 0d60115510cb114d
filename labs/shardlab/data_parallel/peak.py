"""Peak memory of a ZeRO-3 rank, for the small GPT in fp32: states, whole units, gradients, activations.

B sequences per rank, S tokens each, H hidden, A heads, V vocabulary, L blocks, N ranks.
"""

from __future__ import annotations

import torch

from shardlab.costs.memory.states import shard_elements
from shardlab.data_parallel.reducing import MOST_ON_THE_WAY
from shardlab.model.gpt import GPT, GPTConfig

FP32, INT64 = 4, 8


def block_activation_bytes(config: GPTConfig, batch: int) -> int:
    """Bytes that a block keeps for its backward: 16H + A + 4 numbers per token.

    Inputs of both norms 2H, their outputs 2H, q, k and v 3H, the output of attention H, the MLP before and after its
    GELU 8H, each norm's mean and scale, and a sum of exponentials per head. (PyTorch's CPU kernels keep no scores.)
    """
    return FP32 * batch * config.sequence * (16 * config.hidden + config.heads + 4)


def outer_activation_bytes(config: GPTConfig, batch: int) -> int:
    """Bytes kept by embedding, last norm, head and loss: 2H + 2 + V numbers per token, tokens, targets, positions."""
    tokens = batch * config.sequence
    numbers = FP32 * tokens * (2 * config.hidden + 2 + config.vocabulary)
    return numbers + INT64 * (2 * tokens + config.sequence) + FP32  # plus the weight that the mean is divided by


def predicted_peak(config: GPTConfig, num_ranks: int, *, batch: int, prefetch: int = 1) -> float:
    """Peak bytes of a step with Adam: the maximum over the blocks k = L-1 ... 0 of the backward.

    During the backward of block k, a rank holds
    1. shards: weights, Adam's two moments, and the gradients of the blocks already done
    2. whole units: this block, the next `prefetch` blocks, and the parameters outside all blocks
    3. whole gradients: this block's, and those of at most MOST_ON_THE_WAY blocks that are being summed
    4. activations of the remaining blocks, and of everything outside the blocks
    """
    with torch.device("meta"):
        model = GPT(config)
    unit = sum(parameter.numel() for parameter in model.blocks[0].parameters())
    outside = sum(parameter.numel() for parameter in model.parameters()) - config.layers * unit
    unit_shard, outside_shard = (shard_elements(size, num_ranks)[0] for size in (unit, outside))
    shards = 3 * (config.layers * unit_shard + outside_shard)
    moments = []
    for behind in range(config.layers):
        ahead = min(prefetch, config.layers - 1 - behind)
        whole = (1 + ahead) * unit_shard * num_ranks + outside_shard * num_ranks
        gradients = behind * unit_shard + (1 + min(behind, MOST_ON_THE_WAY)) * unit_shard * num_ranks
        activations = (config.layers - behind) * block_activation_bytes(config, batch)
        moments.append(FP32 * (shards + whole + gradients) + activations)
    return max(moments) + outer_activation_bytes(config, batch)


def rule_of_thumb(config: GPTConfig, num_ranks: int, *, batch: int, prefetch: int = 1) -> float:
    """16 bytes per parameter / N, the units that are whole at once, all activations. Too low if weights dominate."""
    with torch.device("meta"):
        model = GPT(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    unit = sum(parameter.numel() for parameter in model.blocks[0].parameters())
    outside = parameters - config.layers * unit
    activations = config.layers * block_activation_bytes(config, batch) + outer_activation_bytes(config, batch)
    return 4 * FP32 * parameters / num_ranks + FP32 * ((1 + prefetch) * unit + outside) + activations
