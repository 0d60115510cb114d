"""Two-level dispatch: send one copy of each token to each node that holds its experts, then dispatch inside the node.

A token with k choices on n nodes crosses the slow link n times instead of k times, and comes back once per node,
because a node adds up its experts' outputs. Node-limited routing makes n small (DeepSeek-V3, arXiv 2412.19437,
section 3.2.2). There are N nodes with L ranks each. Rank r has index r % L on node r // L, and exchanges across nodes
with the ranks of the same index.

Shapes: T tokens, M copies that arrive at this rank, H hidden, K choices of a token, E experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.expert_parallel.agreement import Group, own_experts
from shardlab.expert_parallel.dispatch import agree, combined, dispatched, start_combine, start_dispatch
from shardlab.expert_parallel.expert_tensor import Computed
from shardlab.expert_parallel.messages import DIRECT, Travel, all_to_all
from shardlab.model.permutation import rows_by_expert
from shardlab.model.router import Routing


@dataclass(frozen=True)
class TwoLevels:
    """The groups across nodes (same index on every node) and inside this node, and which choices [T, K] are kept."""

    num_experts: int
    across: Group
    inside: Group
    kept_TK: Tensor | None = None
    travel: Travel = DIRECT


def visit_in_two_levels(x_TH: Tensor, routing: Routing, computed: Computed, levels: TwoLevels) -> Tensor:
    """The experts' output for each token [T, H]: 1. a copy to each node  2. inside the node  3. sums back across.

    Each copy is sent with its token's experts (int32) and weights (in the dtype of the scores).
    """
    num_experts, across, kept_TK = levels.num_experts, levels.across, levels.kept_TK
    each = num_experts // dist.get_world_size(across)
    node_TK = routing.experts_TK // each
    kept_TK = torch.ones_like(node_TK, dtype=torch.bool) if kept_TK is None else kept_TK

    on_node = nodes_touched(node_TK, kept_TK, dist.get_world_size(across))
    nodes_TN = torch.arange(on_node.shape[1], device=x_TH.device).expand_as(on_node)
    rows = rows_by_expert(nodes_TN, on_node.shape[1], on_node)
    travel = levels.travel
    outer = agree(rows, group=across, has_gradient=x_TH.requires_grad, travel=travel)
    started = start_dispatch(x_TH, outer)
    token_R = outer.rows.token_R
    experts_TK = routing.experts_TK.masked_fill(~kept_TK, -1).int()
    counts = {"sent": outer.sent, "received": outer.received, "group": across, "agreed": True, "travel": travel}
    experts_MK = all_to_all(experts_TK[token_R], **counts).long()
    weights_MK = all_to_all(routing.weights_TK[token_R], **counts)
    x_MH = started()

    mine = own_experts(num_experts, group=across)
    kept_MK = (experts_MK >= mine.start) & (experts_MK < mine.stop)
    rows = rows_by_expert((experts_MK - mine.start).clamp(0, each - 1), each, kept_MK)
    inner = agree(rows, group=levels.inside, has_gradient=x_MH.requires_grad, travel=travel)
    y_AH = computed(dispatched(x_MH, inner), inner.chunks)
    y_MH = combined(y_AH, weights_MK, inner)

    return start_combine(y_MH, on_node.to(y_MH.dtype), outer)()


def nodes_touched(node_TK: Tensor, kept_TK: Tensor, num_nodes: int) -> Tensor:
    """Which nodes [T, N] hold a token's chosen experts."""
    touched = torch.zeros(len(node_TK), num_nodes + 1, dtype=torch.bool, device=node_TK.device)
    return touched.scatter_(1, node_TK.masked_fill(~kept_TK, num_nodes), True)[:, :num_nodes]
