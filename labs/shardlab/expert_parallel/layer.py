"""An MoE layer whose experts are split over ranks. Each rank has different tokens.

Shapes: B batch, S sequence, T = B*S tokens of this rank, H hidden, E experts, K choices of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.experts import tokens_first
from shardlab.expert_parallel.agreement import (
    Group,
    check_same_layer,
    gathered_counts,
    own_counts,
    own_experts,
)
from shardlab.expert_parallel.dispatch import Exchange, agree, combined, dispatched, start_combine, start_dispatch
from shardlab.expert_parallel.expert_tensor import (
    Computed,
    Tokens,
    computed_alone,
    computed_in_parts,
    gathered_tokens,
    own_part,
    own_sum,
)
from shardlab.expert_parallel.messages import DIRECT, Travel
from shardlab.expert_parallel.two_level import TwoLevels, visit_in_two_levels
from shardlab.model.moe import MoE
from shardlab.model.permutation import rows_by_expert
from shardlab.model.router import Routing


@dataclass(frozen=True)
class Nodes:
    """Groups of a two-level dispatch: the ranks with the same index on every node, and the ranks of one node."""

    across: Group
    inside: Group


@dataclass(frozen=True)
class Splits:
    """How an MoE layer is split.

    group: ranks with different experts. tensor: ranks that share each expert's matrices and have different tokens, or
    None. tokens: all ranks whose tokens form one batch, over which load is counted; None is the world. nodes: the ranks
    of `group` for a two-level dispatch; rank i of `group` is rank i % L of node i // L. travel: how rows are sent.
    """

    group: Group
    tensor: dist.ProcessGroup | None = None
    tokens: Group = None
    nodes: Nodes | None = None
    travel: Travel = DIRECT

    def __post_init__(self) -> None:
        if self.nodes is not None and self.tensor is not None:
            raise ValueError("expert tensor parallelism does not support two levels: leave out tensor or nodes")


@dataclass(frozen=True)
class Ready:
    """Routed tokens, and the exchange that the ranks agreed on.

    tokens: the tokens this rank dispatches, either only its own or also its partners'. partners: in the latter case,
    the number of tokens from each partner.
    """

    x_TH: Tensor
    routing: Routing
    logits_TE: Tensor
    exchange: Exchange | TwoLevels
    tokens: Tokens
    partners: list[int] | None = None


class ParallelMoE(MoE):
    """The layer `whole` with only this rank's experts. The router and shared experts are on every rank.

    Every rank passes the same whole layer, and in the forward its own tokens (any number, including none). Raises the
    same ValueError on every rank if the ranks do not divide the experts or have different layers. In the forward it
    raises for scores that are not finite and for inputs of another dtype or width, before any row is sent.
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
            y_AH = self.computed(dispatched(ready.tokens.x_TH, ready.exchange), ready.exchange.chunks)
            y_TH = combined(y_AH, ready.tokens.weights_TK, ready.exchange)
        else:
            y_TH = visit_in_two_levels(ready.x_TH, ready.routing, self.computed, ready.exchange)
        return self.at_home(y_TH, ready).view_as(x_BSH)

    def prepared(self, x_BSH: Tensor) -> Ready:
        """Route the tokens and exchange the counts, or raise the same ValueError on every rank."""
        x_TH, splits, num_experts = x_BSH.flatten(0, -2), self.splits, self.config.choice.experts
        no_rows_E = self.load_E.new_zeros(0 if splits.nodes else num_experts, dtype=torch.int64)
        counts = partial(own_counts, no_rows_E, has_gradient=True, group=splits.group)
        first, later = [], []
        if splits.tensor is not None and self.gathers_tokens:
            first = [partial(gathered_counts, [0], has_gradient=True, group=splits.tensor)]
        elif splits.tensor is not None:  # its ranks have sent their rows, and are waiting for this rank's
            of_all_sources = [0] * num_experts
            later = [partial(gathered_counts, of_all_sources, has_gradient=True, group=splits.tensor)]
        with telling(*first, counts, *later):
            routing, logits_TE = self.routed(x_TH)
            tokens = Tokens(x_TH, routing.experts_TK, routing.weights_TK, self.kept(routing))
        partners = None
        with telling(counts):
            if splits.tensor is not None and self.gathers_tokens:
                tokens, partners = gathered_tokens(tokens, group=splits.tensor, travel=splits.travel)
        with telling(*later):
            exchange = self._exchange(tokens, partners or [len(x_TH)])
        return Ready(x_TH, routing, logits_TE, exchange, tokens, partners)

    def _exchange(self, tokens: Tokens, num_tokens: list[int]) -> Exchange | TwoLevels:
        choice, capacity, splits = self.config.choice, self.config.capacity, self.splits
        has_gradient = tokens.x_TH.requires_grad
        if splits.nodes is not None:
            no_rows = tokens.experts_TK.new_zeros(0)
            own_counts(no_rows, has_gradient=has_gradient, trouble="", group=splits.group)
            return TwoLevels(choice.experts, splits.nodes.across, splits.nodes.inside, tokens.kept_TK, splits.travel)
        rows = rows_by_expert(tokens.experts_TK, choice.experts, tokens.kept_TK)
        padded_to = None
        if capacity and capacity.padded:
            padded_to = sum(capacity.rows(number, choice) for number in num_tokens)
        return agree(rows, group=splits.group, has_gradient=has_gradient, padded_to=padded_to, travel=splits.travel)

    @property
    def gathers_tokens(self) -> bool:
        """Whether ranks that share experts gather tokens before the dispatch, instead of rows after it."""
        return self.splits.tensor is not None and tokens_first(
            self.config.choice.k, dist.get_world_size(self.splits.group)
        )

    @property
    def computed(self) -> Computed:
        """A function that applies this rank's experts to rows ordered by source."""
        if self.splits.tensor is None or self.gathers_tokens:
            return computed_alone(self.experts)
        return computed_in_parts(self.experts, group=self.splits.tensor, travel=self.splits.travel)

    def at_home(self, y_GH: Tensor, ready: Ready) -> Tensor:
        """The layer's output [T, H], from the experts' outputs for the dispatched tokens."""
        if ready.partners is not None:
            y_GH = own_sum(y_GH, ready.partners, group=self.splits.tensor, travel=self.splits.travel)
        return self.finished(y_GH, ready.x_TH, ready.routing, ready.logits_TE)

    def load_of_batch(self, load_E: Tensor) -> tuple[Tensor, float]:
        """Sum the load over `tokens`. A loss of each rank's own counts would depend on the mesh."""
        total_E = load_E.clone()
        dist.all_reduce(total_E, group=self.splits.tokens)
        of_mean_rank = total_E.sum().item() / dist.get_world_size(self.splits.tokens)
        return total_E, load_E.sum().item() / max(1.0, of_mean_rank)


@contextmanager
def telling(*asked: Callable[..., object]) -> Iterator[None]:
    """Report a ValueError raised inside to all ranks, through the count exchanges in `asked`, before re-raising it."""
    try:
        yield
    except ValueError as error:
        told = error
        for ask in asked:
            try:
                ask(trouble=str(told))
            except ValueError as with_rank:
                told = with_rank
        raise told from None


def spread_experts(model: nn.Module, splits: Splits) -> nn.Module:
    """Replace every MoE layer in `model` by a `ParallelMoE`. Changes the model in place and returns it."""
    for path, whole in [(path, one) for path, one in model.named_modules() if isinstance(one, MoE)]:
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, ParallelMoE(whole, splits))
    return model


def overlapped(layer: ParallelMoE, a_BSH: Tensor, b_BSH: Tensor) -> tuple[Tensor, Tensor]:
    """Compute layer(a) and layer(b), hiding exchanges behind the other's experts. The results are the same.

        dispatch A |  experts A  |  experts B  | combine B
                   | dispatch B  |  combine A  |

    Because `start` and `wait` are adjoint, the backward runs in the reverse order: first the experts of B while rows of
    A are in transit, then the experts of A while rows of B are. DualPipe pairs a forward's exchanges with a backward's
    experts in the same way (DeepSeek-V3, arXiv 2412.19437, section 3.2.1).

    Raises the same ValueError on every rank for a two-level layer, whose second dispatch waits for the first.
    """
    a, load_a = layer.prepared(a_BSH), layer.load_E
    b = layer.prepared(b_BSH)
    layer.load_E = load_a + layer.load_E
    to_a, to_b = a.exchange, b.exchange
    if isinstance(to_a, TwoLevels) or isinstance(to_b, TwoLevels):
        raise ValueError("two levels cannot overlap, because the second dispatch waits for the first: use one level")
    rows_a = start_dispatch(a.tokens.x_TH, to_a)()

    dispatching_b = start_dispatch(b.tokens.x_TH, to_b)
    combining_a = start_combine(layer.computed(rows_a, to_a.chunks), a.tokens.weights_TK, to_a)
    combining_b = start_combine(layer.computed(dispatching_b(), to_b.chunks), b.tokens.weights_TK, to_b)

    done_a = layer.at_home(combining_a(), a)
    done_b = layer.at_home(combining_b(), b)
    return done_a.view_as(a_BSH), done_b.view_as(b_BSH)
