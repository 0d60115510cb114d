"""Router biases, updated once per step from the routing of all microbatches on all ranks of the stage."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.model.moe import MoE
from shardlab.model.router import updated_bias
from shardlab.pipeline_parallel.stages import ModuleStage


class CountingStage(ModuleStage):
    """A stage that counts where its routers send the tokens of each forward. Recomputation is not counted again."""

    def forward(self, microbatch: int, activation: Tensor | None) -> Tensor:
        output = super().forward(microbatch, activation)
        for layer in routed_layers([self.module]):
            layer.load_of_step = layer.load_E + getattr(layer, "load_of_step", 0)
        return output


@torch.no_grad()
def update_biases(parts: Iterable[nn.Module], *, rate: float, group: dist.ProcessGroup | None) -> None:
    """Move every router's bias toward balance. group: all ranks of the stage, each of which has different tokens."""
    layers = routed_layers(parts)
    if not layers:
        return
    loads = torch.stack([layer.load_of_step for layer in layers])  # type: ignore[arg-type]
    dist.all_reduce(loads, group=group)
    for layer, load_E in zip(layers, loads, strict=True):
        bias_E = layer.router.get_buffer("bias_E")
        bias_E.copy_(updated_bias(bias_E, load_E, rate=rate))


def forget_loads(parts: Iterable[nn.Module]) -> None:
    """Reset the counts, on the layer's device: before the first forward, `load_E` may still be on another one."""
    for layer in routed_layers(parts):
        device = next(layer.parameters()).device
        layer.load_of_step = torch.zeros_like(layer.load_E, device=device)


def routed_layers(parts: Iterable[nn.Module]) -> list[MoE]:
    """The MoE layers, in order."""
    return [one for part in parts for one in part.modules() if isinstance(one, MoE)]
