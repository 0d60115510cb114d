"""Megatron's layers, blocks and whole GPTModel with our weights, and their gradients under our names.

Shapes: A query heads, K key-value heads, D head width, F MLP width, t ranks. Use it in one rank's process.
"""

from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from shardlab.model.gpt import GPTConfig
from torch import Tensor, nn
from torch.nn import functional

MODULES = {  # ours: Megatron's; blocks have a number in between
    "token": "embedding.word_embeddings",
    "position": "embedding.position_embeddings",
    "norm_1": "input_layernorm",
    "attention.qkv": "self_attention.linear_qkv",
    "attention.out": "self_attention.linear_proj",
    "norm_2": "pre_mlp_layernorm",
    "up": "mlp.linear_fc1",
    "down": "mlp.linear_fc2",
    "norm": "decoder.final_layernorm",
    "head": "output_layer",
}


def megatron_config(config: GPTConfig, *, sequence_parallel: bool, recompute: str) -> Any:
    """Our sizes as Megatron's configuration, without fused kernels. recompute: "none", "selective" or "full"."""
    from megatron.core.transformer import TransformerConfig

    granularity: dict[str, Any] = {} if recompute == "none" else {"recompute_granularity": recompute}
    if recompute == "full":
        granularity |= {"recompute_method": "uniform", "recompute_num_layers": 1}
    return TransformerConfig(
        num_layers=config.layers,
        hidden_size=config.hidden,
        ffn_hidden_size=4 * config.hidden,
        num_attention_heads=config.heads,
        num_query_groups=config.kv_heads or config.heads,
        gated_linear_unit=config.gated,
        activation_func=functional.silu if config.gated else functional.gelu,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tensor_model_parallel_size=dist.get_world_size(),
        sequence_parallel=sequence_parallel,
        use_cpu_initialization=True,
        params_dtype=torch.float32,
        masked_softmax_fusion=False,
        bias_dropout_fusion=False,
        gradient_accumulation_fusion=False,
        **granularity,
    )


class Layers(nn.Module):
    """Megatron's ColumnParallelLinear and RowParallelLinear around a GELU: [S, B, H] to [S, B, H]."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear

        common = {"config": settings, "init_method": nn.init.zeros_, "bias": True, "skip_bias_add": False}
        hidden = settings.hidden_size
        column = ColumnParallelLinear(hidden, 4 * hidden, gather_output=False, **common)
        row = RowParallelLinear(4 * hidden, hidden, input_is_parallel=True, **common)
        self.mlp = nn.ModuleDict({"linear_fc1": column, "linear_fc2": row})

    def forward(self, x_SBH: Tensor) -> Tensor:
        return self.mlp["linear_fc2"](functional.gelu(self.mlp["linear_fc1"](x_SBH)[0]))[0]


class Blocks(nn.Module):
    """Megatron's TransformerBlock, a stack of layers without the last norm: [S, B, H] to [S, B, H]."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
        from megatron.core.transformer.transformer_block import TransformerBlock

        self.decoder = TransformerBlock(settings, get_gpt_layer_local_spec(), post_layer_norm=False)

    def forward(self, x_SBH: Tensor) -> Tensor:
        length = x_SBH.shape[0] * (dist.get_world_size() if self.decoder.config.sequence_parallel else 1)
        return self.decoder(x_SBH, attention_mask=causal_mask(length).to(x_SBH.device))


def gpt_model(settings: Any, config: GPTConfig) -> nn.Module:
    """Megatron's whole GPTModel, with learned positions and with a tied head if ours is tied."""
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    return GPTModel(
        config=settings,
        transformer_layer_spec=get_gpt_layer_local_spec(),
        vocab_size=config.vocabulary,
        max_sequence_length=config.sequence,
        share_embeddings_and_output_weights=config.tied,
    )


def causal_mask(length: int) -> Tensor:
    """True where a token must not attend, [1, 1, S, S]."""
    return torch.ones(1, 1, length, length).triu(1).bool()


def take_weights(model: nn.Module, whole: nn.Module, config: GPTConfig) -> None:
    """Copy this rank's shards of our whole model's weights into Megatron's model."""
    size, rank = dist.get_world_size(), dist.get_rank()
    theirs: dict[str, Any] = dict(model.named_parameters())  # Any, since Megatron adds attributes to its parameters
    with torch.no_grad():
        for name, weight in whole.named_parameters():
            parameter, order = theirs.pop(their_name(name)), order_of_rows(name, config, size)
            rows = weight if order is None else weight[order]
            parameter.copy_(rows.chunk(size, parameter.partition_dim)[rank] if is_split(parameter) else rows)
    assert not theirs, f"no weights for {list(theirs)}"


def whole_gradients(model: nn.Module, whole: nn.Module, config: GPTConfig) -> dict[str, Tensor]:
    """Megatron's gradients gathered from all ranks, under our names and in our order."""
    size, theirs, found = dist.get_world_size(), dict[str, Any](model.named_parameters()), {}
    for name, _ in whole.named_parameters():
        parameter, order = theirs[their_name(name)], order_of_rows(name, config, size)
        gradient = parameter.grad
        if is_split(parameter):
            parts = [torch.empty_like(gradient) for _ in range(size)]
            dist.all_gather(parts, gradient.contiguous())
            gradient = torch.cat(parts, parameter.partition_dim)
        if order is not None:
            gradient = torch.empty_like(gradient).index_copy_(0, order, gradient)
        found[name] = gradient
    return found


def finish_gradients(model: nn.Module, settings: Any) -> None:
    """Sum gradients that are partial under sequence parallelism, as Megatron's `finalize_model_grads` does."""
    from megatron.core.distributed.finalize_model_grads import _allreduce_non_tensor_model_parallel_grads

    model.ddp_config = SimpleNamespace(use_megatron_fsdp=False)  # type: ignore[assignment] - read from its wrapper
    _allreduce_non_tensor_model_parallel_grads([model], settings)


def is_split(parameter: nn.Parameter) -> bool:
    """Whether this rank holds only a shard of the parameter."""
    return getattr(parameter, "tensor_model_parallel", False)


def their_name(ours: str) -> str:
    """`blocks.0.up.weight` is `decoder.layers.0.mlp.linear_fc1.weight`."""
    path, _, parameter = ours.rpartition(".")
    before = ""
    if path.startswith("blocks."):
        _, number, path = path.split(".", 2)
        before = f"decoder.layers.{number}."
    return f"{before}{MODULES[path]}.{parameter}"


def order_of_rows(name: str, config: GPTConfig, size: int) -> Tensor | None:
    """The order in which Megatron stores our rows; None if it is the same.

    qkv: queries, key and value group by group, where ours has all queries first. Gated: the gate before the passing
    half on each rank, where ours has all of the passing half first.
    """
    if "qkv" in name:
        width, groups = config.hidden // config.heads, config.kv_heads or config.heads
        rows = torch.arange(config.hidden + 2 * groups * width)
        parts = rows.split((config.hidden, groups * width, groups * width))
        return torch.cat([part.view(groups, -1) for part in parts], 1).flatten()
    if config.gated and ".up." in name:
        passing, gate = torch.arange(8 * config.hidden).view(2, size, -1)
        return torch.stack([gate, passing], 1).flatten()
    return None
