"""What ranks sum once per step: gradients over tp and between stages, the gradient norm, and the routers' loads.

Most gradients are complete once `weights` has summed them over dp and cp, or over edp for experts. Two sums are left:
over tp, where each rank saw a part of the tokens or several ranks use the same key-value head; and between the two
stages of a tied embedding.

In the norm, every element of the model counts once: each rank divides what it holds by the number of ranks that hold
the same (tp ranks that all have a norm, dp ranks without ZeRO, copies of an expert, neighbors that share a key-value
head). Padding and twins do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.hybrid.places import FlatShard, ParameterPlace, fragments
from shardlab.hybrid.weights import MasterShard, Weights, flat
from shardlab.mesh.gradient_norm import squared_norm
from shardlab.model.balance import updated_bias
from shardlab.model.moe import MoE
from shardlab.pipeline_parallel.shared_weights import add_tensors
from shardlab.pipeline_parallel.stages import ModuleStage
from shardlab.tensor_parallel.gradients import PartialShard, Sums


@torch.no_grad()
def sum_partial_slices(
    slices: Iterable[MasterShard], shards: Mapping[nn.Parameter, list[PartialShard]], *, group: dist.ProcessGroup
) -> None:
    """Sum partial gradients over tp, in one all-reduce per dtype. Sends nothing if none are partial."""
    if dist.get_world_size(group) == 1:
        return
    sums = Sums()
    for one in slices:
        for shard in shards.get(one.parameter, ()):
            begin, end = max(one.begin, shard.begin), min(one.end, shard.end)
            if begin < end:
                first = one.at + begin - one.begin
                sums.add(gradient_of(one)[first : first + end - begin], shard.number, shard.count)
    sums.reduce(group=group)


@torch.no_grad()
def sum_tied_slices(slices: Iterable[MasterShard], tied: nn.Parameter, peer: int, *, group: dist.ProcessGroup) -> None:
    """Add the peer's gradient of a weight that both stages hold and split the same way."""
    mine = [gradient_of(one)[one.at : one.at + one.end - one.begin] for one in slices if one.parameter is tied]
    add_tensors(mine, peer, group=group)


def gradient_of(one: MasterShard) -> Tensor:
    """The flattened gradient of the slice's master."""
    assert one.master.grad is not None
    return flat(one.master.grad)


class Owned(NamedTuple):
    """A slice of a parameter, the blocks of the whole tensor it covers, and the weights it belongs to."""

    slice: MasterShard
    place: ParameterPlace
    fragments: list[FlatShard]
    weights: Weights


def owned_by(weights: Weights, places: Mapping[nn.Parameter, ParameterPlace]) -> list[Owned]:
    """The slices of a stage's parameters that this rank updates, with their blocks."""
    found = []
    for one in weights.slices():
        place = places[one.parameter]
        blocks = fragments(place, one.parameter.shape, one.begin, one.end, at=one.at)
        found.append(Owned(one, place, blocks, weights))
    return found


@torch.no_grad()
def squares_of(owned: Iterable[Owned]) -> float:
    """This rank's share of the sum of squares of the whole model's gradient."""
    total = 0.0
    for one in owned:
        if one.place.is_twin:
            continue
        gradient = gradient_of(one.slice)
        for block in one.fragments:
            total += squared_norm([block.of(gradient)]).item() / (block.copies * one.weights.copies)
    return total


def summed(numbers: Sequence[float], *, group: dist.ProcessGroup, device: torch.device) -> list[float]:
    """Sum some numbers over all ranks in one float64 all-reduce. Every rank gets the same sums."""
    mine = torch.tensor(numbers, dtype=torch.float64, device=device)
    dist.all_reduce(mine, group=group)
    return mine.tolist()


def check_finite(
    norm: float, bad: Iterable[ParameterPlace], owned: Iterable[Owned], *, group: dist.ProcessGroup
) -> None:
    """If the norm is not finite, raise the same NotFinite on every rank, naming the first rank and gradient to blame.

    bad: this rank's own gradients that were not finite before any sum. A sum spreads NaN over its whole group, so the
    sums in `owned` are blamed only if no rank has a bad gradient itself. Every rank passes the same norm, and the
    ranks exchange details only if it is not finite.
    """
    if torch.isfinite(torch.tensor(norm)):
        return
    own = next((place.name for place in bad), "")
    in_a_sum = next((one.place.name for one in owned if not gradient_of(one.slice).isfinite().all()), "")
    by_rank: list[tuple[str, str]] = [("", "")] * dist.get_world_size(group)
    dist.all_gather_object(by_rank, (own, in_a_sum), group=group)
    blamed = [(rank, name) for names in zip(*by_rank, strict=True) for rank, name in enumerate(names) if name]
    raise NotFinite(*(blamed or [(0, "the loss")])[0])


class NotFinite(ValueError):
    """A gradient is infinite or NaN. No weight was changed."""

    def __init__(self, rank: int, name: str) -> None:
        self.rank, self.name = rank, name
        super().__init__(
            f"rank {rank}: the gradient of {name} is infinite or not a number. No weight was changed. Check the "
            "batch and the loss, or lower the learning rate"
        )


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
