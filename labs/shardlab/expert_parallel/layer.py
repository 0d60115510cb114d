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
from shardlab.expert_parallel.two_level import visit_in_two_levels
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
    where no one does. tokens: all ranks whose tokens make one batch, over which load is counted; None is the world.
    nodes: the same ranks as `group`, for two levels; rank i of `group` is the i % L-th of node i // L.
    """

    group: Group
    tensor: dist.ProcessGroup | None = None
    tokens: Group = None
    nodes: Nodes | None = None


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
        x_TH = x_BSH.flatten(0, -2)
        try:
            routing, logits_TE = self.routed(x_TH)
            kept_TK = self.kept(routing)
        except ValueError as error:
            gathered_counts([0] * self.num_counts, has_gradient=False, trouble=str(error), group=self.splits.group)
            raise
        y_TH = self.visited(x_TH, routing, kept_TK)
        return self.finished(y_TH, x_TH, routing, logits_TE).view_as(x_BSH)

    def visited(self, x_TH: Tensor, routing: Routing, kept_TK: Tensor | None) -> Tensor:
        """What the routed experts give each token [T, H]."""
        num_experts, nodes = self.config.choice.experts, self.splits.nodes
        if nodes is not None:
            gathered_counts([], has_gradient=x_TH.requires_grad, trouble="", group=self.splits.group)
            return visit_in_two_levels(
                x_TH, routing, self.computed, num_experts=num_experts, across=nodes.across, inside=nodes.inside,
                kept_TK=kept_TK,
            )  # fmt: skip
        exchange = self.agreed(x_TH, routing, kept_TK)
        return combined(self.computed(dispatched(x_TH, exchange), exchange.chunks), routing.weights_TK, exchange)

    def agreed(self, x_TH: Tensor, routing: Routing, kept_TK: Tensor | None) -> Exchange:
        """What is sent to whom."""
        rows = rows_by_expert(routing.experts_TK, self.config.choice.experts, kept_TK)
        capacity = self.config.capacity
        padded_to = capacity.rows(len(x_TH), self.config.choice) if capacity and capacity.padded else None
        return agree(rows, group=self.splits.group, has_gradient=x_TH.requires_grad, padded_to=padded_to)

    @property
    def computed(self) -> Computed:
        """The own experts, on rows that lie by source."""
        if self.splits.tensor is None:
            return computed_alone(self.experts)
        return computed_in_parts(self.experts, group=self.splits.tensor)

    @property
    def num_counts(self) -> int:
        """Numbers with which the ranks of `group` agree first: rows for each expert, none where levels do it later."""
        return 0 if self.splits.nodes else self.config.choice.experts

    def load_of_batch(self) -> tuple[Tensor, float]:
        """Summed over `tokens`: a loss of each rank's own counts would be another one on another mesh."""
        load_E = self.load_E.clone()
        dist.all_reduce(load_E, group=self.splits.tokens)
        of_mean_rank = load_E.sum().item() / dist.get_world_size(self.splits.tokens)
        return load_E, self.load_E.sum().item() / max(1.0, of_mean_rank)
