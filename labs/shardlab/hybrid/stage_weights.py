"""Assign the dense weights and the experts of each stage to the ranks that update them, whole or in slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from shardlab.hybrid.groups import Sharing, sharing
from shardlab.hybrid.part import PartOfModel, Share
from shardlab.hybrid.places import ParameterPlace
from shardlab.hybrid.settings import Settings
from shardlab.hybrid.weights import NewOptimizer, SlicedWeights, Weights, WholeWeights, lower
from shardlab.mesh.process_groups import GRADIENTS, ProcessGroups


@dataclass(frozen=True)
class NewWeights:
    """The inputs common to all stages. tied: a parameter that another rank also holds and shards, or None."""

    settings: Settings
    new_optimizer: NewOptimizer
    places: Mapping[nn.Parameter, ParameterPlace]
    tied: nn.Parameter | None

    def of(self, parts: Mapping[int, PartOfModel], groups: ProcessGroups) -> tuple[list[Weights], dict[int, nn.Module]]:
        """All weights of a rank's stages, and for each stage the module to call in the passes.

        Collective: every rank of the world must call it. A parameter shared by two stages belongs to the first one.
        """
        of_dense, of_experts = sharing(groups, GRADIENTS, self.settings.replicas), None
        if any(place.is_expert for place in self.places.values()):
            of_experts = sharing(groups, ("edp",), self.settings.replicas)
        found: list[Weights] = []
        modules: dict[int, nn.Module] = {}
        seen: set[nn.Parameter] = set()
        for stage, part in parts.items():
            named = {name: one for name, one in part.named_parameters() if one not in seen}
            seen.update(named.values())
            module: nn.Module = part
            for ranks, is_expert in ((of_experts, True), (of_dense, False)):
                own = {name: one for name, one in named.items() if self.places[one].is_expert == is_expert}
                if ranks is not None and any(one.requires_grad for one in own.values()):
                    module = Share(module, own)
                    found.append(self._of_share(module, part, ranks, is_expert=is_expert))
            self._lower_frozen(part)
            modules[stage] = module if self.settings.zero == 3 else part
        return found, modules

    def _of_share(self, share: Share, part: PartOfModel, ranks: Sharing, *, is_expert: bool) -> Weights:
        settings = self.settings
        sizes = {} if settings.bucket_bytes is None else {"bucket_bytes": settings.bucket_bytes}
        common = {"sharing": ranks, "compute_dtype": settings.compute_dtype, "options": sizes}
        if settings.zero == 0:
            return WholeWeights(share, self.new_optimizer, **common)
        apart = [one for one in share.parameters() if one is self.tied]
        units = units_of(part, is_expert=is_expert)
        return SlicedWeights(share, self.new_optimizer, zero=settings.zero, units=units, apart=apart, **common)

    def _lower_frozen(self, part: PartOfModel) -> None:
        for one in part.parameters():
            if self.settings.compute_dtype is not None and not one.requires_grad:
                lower(one, self.settings.compute_dtype)


def units_of(part: PartOfModel, *, is_expert: bool) -> list[nn.Module]:
    """The units that ZeRO-3 gathers: every block, embedding, norm and head; for experts, those of each layer."""
    if is_expert:
        return [block.moe.experts for block in part.blocks.values()]  # type: ignore[union-attr,misc]
    around = [one for one in (part.token, part.position, part.norm, part.head) if one is not None]
    return [*around, *part.blocks.values()]
