"""A layer of experts whose experts are spread over ranks, each rank with tokens of its own.

Shapes: B batch, S sequence, T = B*S tokens of this rank, H hidden, E experts, K choices of a token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor, nn

from shardlab.expert_parallel.agreement import Group, check_same_layer, gathered_counts, own_experts
from shardlab.expert_parallel.dispatch import Exchange, agree, combined, dispatched
from shardlab.expert_parallel.expert_tensor import Computed, computed_alone, computed_in_parts, own_part
from shardlab.expert_parallel.two_level import TwoLevels, visit_in_two_levels
from shardlab.model.moe import MoE
from shardlab.model.permutation import rows_by_expert
from shardlab.model.router import Routing


@dataclass(frozen=True)
class Nodes:
    """Groups of a dispatch in two levels: ranks of the same place on every node, and those of one node."""

    across: Group
    inside: Group


@dataclass(frozen=True)
class Splits:
    """How a layer of experts is spread.

    group: ranks with different experts. tensor: ranks that share each expert's matrices, with different tokens; None
    where no ranks do. tokens: all ranks whose tokens make one batch, over which load is counted; None is the world.
    nodes: the same ranks as `group`, for two levels; rank i of `group` is the i % L-th of node i // L.
    """

    group: Group
    tensor: dist.ProcessGroup | None = None
    tokens: Group = None
    nodes: Nodes | None = None

    def __post_init__(self) -> None:
        if self.nodes is not None and self.tensor is not None:
            raise ValueError("experts that are split cannot be reached in two levels: leave out tensor or nodes")


@dataclass(frozen=True)
class Ready:
    """Tokens that have been routed, and what the ranks have agreed to exchange."""

    x_TH: Tensor
    routing: Routing
    logits_TE: Tensor
    exchange: Exchange | TwoLevels


class ParallelMoE(MoE):
    """The layer `whole` with this rank's part of its experts; router and shared experts lie on every rank.

    Every rank gives the same whole layer, and its own tokens, any number of them, none too. Raises ValueError, on
    every rank alike, where the ranks do not divide the experts or have different layers; in the forward for scores
    that are not numbers and inputs of another dtype or width, before a row is sent.
    """

    def __init__(self, whole: MoE, splits: Splits) -> None:
        nn.Module.__init__(self)
        self.config, self.splits, self.load_E = whole.config, splits, whole.load_E
        mine = own_experts(whole.config.choice.experts, group=splits.group)
        check_same_layer(whole.config.choice, whole, group=splits.group)
        self.router, self.shared = whole.router, whole.shared
        self.experts = own_part(whole.experts, mine, group=splits.tensor)

    def forward(self, x_BSH: Tensor) -> Tensor:
        ready = self.prepared(x_BSH)
        if isinstance(ready.exchange, Exchange):
            y_AH = self.computed(dispatched(ready.x_TH, ready.exchange), ready.exchange.chunks)
            y_TH = combined(y_AH, ready.routing.weights_TK, ready.exchange)
        else:
            y_TH = visit_in_two_levels(ready.x_TH, ready.routing, self.computed, ready.exchange)
        return self.finished(y_TH, ready.x_TH, ready.routing, ready.logits_TE).view_as(x_BSH)

    def prepared(self, x_BSH: Tensor) -> Ready:
        """Route, and agree on who sends what; or raise ValueError, on every rank alike."""
        x_TH = x_BSH.flatten(0, -2)
        try:
            routing, logits_TE = self._routed_together(x_TH)
            return Ready(x_TH, routing, logits_TE, self._exchange(x_TH, routing))
        except ValueError as error:
            if self.splits.tensor is not None:  # its ranks have sent their rows, and wait for this one's
                num_counts = self.config.choice.experts  # of all sources and own experts
                gathered_counts([0] * num_counts, has_gradient=True, trouble=str(error), group=self.splits.tensor)
            raise

    def _routed_together(self, x_TH: Tensor) -> tuple[Routing, Tensor]:
        try:
            return self.routed(x_TH)
        except ValueError as error:
            num_counts = 0 if self.splits.nodes else self.config.choice.experts
            gathered_counts([0] * num_counts, has_gradient=True, trouble=str(error), group=self.splits.group)
            raise

    def _exchange(self, x_TH: Tensor, routing: Routing) -> Exchange | TwoLevels:
        choice, capacity, nodes = self.config.choice, self.config.capacity, self.splits.nodes
        kept_TK = self.kept(routing)
        if nodes is not None:
            gathered_counts([], has_gradient=x_TH.requires_grad, trouble="", group=self.splits.group)
            return TwoLevels(choice.experts, nodes.across, nodes.inside, kept_TK)
        rows = rows_by_expert(routing.experts_TK, choice.experts, kept_TK)
        padded_to = capacity.rows(len(x_TH), choice) if capacity and capacity.padded else None
        return agree(rows, group=self.splits.group, has_gradient=x_TH.requires_grad, padded_to=padded_to)

    @property
    def computed(self) -> Computed:
        """The own experts, on rows that lie by source."""
        if self.splits.tensor is None:
            return computed_alone(self.experts)
        return computed_in_parts(self.experts, group=self.splits.tensor)

    def load_of_batch(self, load_E: Tensor) -> tuple[Tensor, float]:
        """Summed over `tokens`: a loss of each rank's own counts would be another one on another mesh."""
        total_E = load_E.clone()
        dist.all_reduce(total_E, group=self.splits.tokens)
        of_mean_rank = total_E.sum().item() / dist.get_world_size(self.splits.tokens)
        return total_E, load_E.sum().item() / max(1.0, of_mean_rank)


def spread_experts(model: nn.Module, splits: Splits) -> nn.Module:
    """Replace every layer of experts below `model` by one that is spread; returns the model, changed in place."""
    for path in [path for path, one in model.named_modules() if isinstance(one, MoE)]:
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, ParallelMoE(model.get_submodule(path), splits))  # type: ignore[arg-type]
    return model
