"""A mixture-of-experts (MoE) layer on one device: route, sort by expert, compute, sort back and sum.

Shapes: B batch, S sequence, T = B*S tokens, H hidden, E experts, K choices per token, R rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shardlab.model.experts import Experts, Method, by_loop
from shardlab.model.permutation import Capacity, from_rows, rows_by_expert, to_rows
from shardlab.model.router import Choice, Router, Routing, auxiliary_loss, load_of, updated_bias, with_loss, z_loss


@dataclass(frozen=True)
class MoEConfig:
    """Sizes of an MoE layer.

    width: of one expert. shared: number of experts that every token visits, computed as one MLP of `shared` times the
    width (DeepSeekMoE, arXiv 2401.06066, section 3.2). auxiliary, z: coefficients of the two losses. capacity: None
    drops nothing.
    """

    hidden: int
    width: int
    choice: Choice
    shared: int = 0
    gated: bool = False
    auxiliary: float = 0.0
    z: float = 0.0
    capacity: Capacity | None = None
    method: Method = by_loop


class MoE(nn.Module):
    """Each token visits the K experts that the router chose, and the shared ones.

    `load_E` has the choices per expert in the last forward; it is overwritten, not accumulated, so that a recomputed
    layer counts once. `weight_of_loss`: weight of this forward's own losses in the step, 1/m with m microbatches.
    """

    weight_of_loss = 1.0

    def __init__(self, config: MoEConfig) -> None:
        super().__init__()
        self.config = config
        choice = config.choice
        self.router = Router(config.hidden, choice)
        self.experts = Experts(choice.experts, config.hidden, config.width, is_gated=config.gated, method=config.method)
        self.shared = None
        if config.shared:
            self.shared = Experts(1, config.hidden, config.shared * config.width, is_gated=config.gated)
        self.load_E = torch.zeros(choice.experts, dtype=torch.int64)

    def forward(self, x_BSH: Tensor) -> Tensor:
        x_TH = x_BSH.flatten(0, -2)
        routing, logits_TE = self.routed(x_TH)
        rows = rows_by_expert(routing.experts_TK, self.config.choice.experts, self.kept(routing))
        y_TH = from_rows(self.experts(to_rows(x_TH, rows), rows.sizes), routing.weights_TK, rows)
        return self.finished(y_TH, x_TH, routing, logits_TE).view_as(x_BSH)

    def routed(self, x_TH: Tensor) -> tuple[Routing, Tensor]:
        """The routing of each token, and its logits. Raises ValueError if the width or dtype of x is wrong."""
        weight = self.experts.up
        if x_TH.shape[-1] != self.config.hidden or x_TH.dtype != weight.dtype:
            raise ValueError(
                f"the input has width {x_TH.shape[-1]} and {x_TH.dtype}, but the experts have {self.config.hidden} and "
                f"{weight.dtype}: give that width and dtype"
            )
        routing, logits_TE = self.router(x_TH)
        self.load_E = load_of(routing.experts_TK, self.config.choice.experts)
        return routing, logits_TE

    def kept(self, routing: Routing) -> Tensor | None:
        """Which choices [T, K] are not dropped; None for all."""
        capacity = self.config.capacity
        return None if capacity is None else capacity.kept(routing, self.config.choice)

    def finished(self, y_TH: Tensor, x_TH: Tensor, routing: Routing, logits_TE: Tensor) -> Tensor:
        """Add the shared experts' output and attach the layer's own losses to the routed experts' output."""
        if self.shared is not None:
            y_TH = y_TH + self.shared(x_TH, [len(x_TH)])
        loss = self.own_loss(routing, logits_TE)
        return y_TH if loss is None else with_loss(y_TH, loss)

    def own_loss(self, routing: Routing, logits_TE: Tensor) -> Tensor | None:
        """The balance loss and z-loss with their coefficients; None if both are 0."""
        auxiliary, z = self.config.auxiliary, self.config.z
        if not auxiliary and not z:
            return None
        load_E, share = self.load_of_batch(load_of(routing.experts_TK, self.config.choice.experts))
        losses = auxiliary * auxiliary_loss(routing, load_E) + z * z_loss(logits_TE)
        return self.weight_of_loss * share * losses

    def load_of_batch(self, load_E: Tensor) -> tuple[Tensor, float]:
        """Choices per expert in the whole batch, and this rank's share of the batch relative to the mean (here 1)."""
        return load_E, 1.0

    @torch.no_grad()
    def update_bias(self, *, rate: float = 1e-3) -> None:
        """Move the router's bias toward balance; call it once per step."""
        bias_E = self.router.get_buffer("bias_E")
        bias_E.copy_(updated_bias(bias_E, self.load_of_batch(self.load_E)[0], rate=rate))
