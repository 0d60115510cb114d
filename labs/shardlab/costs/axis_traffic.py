"""Bytes that one rank sends on each axis of a layout, with ring collectives and 2 bytes per number in bf16.

Symbols: s sequence, b microbatch, h hidden; t, p, c, e, d sizes of the axes. With c > 1 a rank holds s/c positions.
"""

from dataclasses import dataclass

from shardlab.costs.context import kv_bytes, ulysses_bytes
from shardlab.costs.layout import Layout
from shardlab.costs.memory.states import parameters_on_stage
from shardlab.costs.models.model import Transformer
from shardlab.costs.traffic import (
    all_to_all_bytes,
    ring_all_gather_bytes,
    ring_all_reduce_bytes,
    ring_reduce_scatter_bytes,
)

BF16 = 2


@dataclass(frozen=True)
class AxisTraffic:
    """Bytes that one rank of a middle stage sends in a step, by axis and direction."""

    tp_forward: float
    tp_backward: float
    cp_forward: float
    cp_backward: float
    ep_forward: float
    ep_backward: float
    pp_forward: float
    pp_backward: float
    dp: float

    @property
    def total(self) -> float:
        return sum(vars(self).values())

    @property
    def by_axis(self) -> dict[str, float]:
        """The bytes of both directions, by axis."""
        return {
            "tp": self.tp_forward + self.tp_backward,
            "cp": self.cp_forward + self.cp_backward,
            "ep": self.ep_forward + self.ep_backward,
            "pp": self.pp_forward + self.pp_backward,
            "dp": self.dp,
        }


def activation_bytes_of(model: Transformer, layout: Layout) -> float:
    """2bsh/c: one activation of a microbatch, which is the payload of a tensor-parallel all-reduce."""
    return model.number_bytes * layout.microbatch * model.sequence / layout.cp * model.hidden


def tp_layer_bytes(model: Transformer, layout: Layout) -> float:
    """2 all-reduces of 2bsh per layer and direction (arXiv 1909.08053, section 3).

    Sequence parallelism sends the same bytes as 2 all-gathers and 2 reduce-scatters (arXiv 2205.05198, section 4.2.2).
    """
    return 2 * ring_all_reduce_bytes(layout.tp, activation_bytes_of(model, layout))


def cp_layer_bytes(model: Transformer, layout: Layout) -> float:
    """Bytes sent in a layer's forward to reach the keys of all ranks: `costs.context`, with each width divided by t.

    (c-1) * 2 * 2b(s/c)h_kv/t for a ring. Its backward sends twice as much because gradients of keys and values return.
    """
    tokens = layout.microbatch * model.sequence / layout.cp
    if layout.context == "ulysses":
        width, kv_heads = (model.query_width + model.value_width) / 2, max(1, model.kv_heads // layout.tp)
        widths = width / layout.tp, model.kv_width / layout.tp
        return ulysses_bytes(layout.cp, tokens, *widths, kv_heads=kv_heads, bytes_each=model.number_bytes)
    kv = min(model.kv_width, model.latent.kv_rank + model.latent.rope) if model.latent else model.kv_width
    return kv_bytes(layout.cp, tokens, kv / layout.tp, bytes_each=model.number_bytes)


def cp_passes(layout: Layout) -> tuple[float, float]:
    """How often the forward's bytes are sent in forward and backward; full recomputation repeats the forward."""
    return 1, (1 if layout.context == "ulysses" else 2) + layout.again


def ep_layer_bytes(model: Transformer, layout: Layout) -> float:
    """2 all-to-alls, dispatch and combine: each sends T*k*h*2*(e-1)/e bytes for a rank's T = bs/(ct) tokens."""
    if not model.experts:
        return 0.0
    tokens = layout.microbatch * model.sequence / layout.cp / layout.tp
    return 2 * all_to_all_bytes(layout.ep, model.number_bytes * tokens * model.active_experts * model.hidden)


def pp_boundary_bytes(model: Transformer, layout: Layout) -> float:
    """2bsh/c each way at a stage boundary, divided by t if the sequence is split over the tensor-parallel ranks."""
    if layout.pp == 1:
        return 0.0
    return activation_bytes_of(model, layout) / (layout.tp if layout.sequence_parallel else 1)


def reductions_of(layout: Layout) -> int:
    """Reduce-scatters of each gradient per step: one in every microbatch that shards gradients.

    With a pipeline, ZeRO-2 keeps gradients whole until the last microbatch, as in frameworks that combine the two.
    """
    every = layout.zero == 3 or (layout.zero == 2 and layout.pp == 1)
    return layout.num_microbatches if every else 1


def gathers_of(layout: Layout) -> int:
    """All-gathers of each parameter per step: one, or two per microbatch with ZeRO-3."""
    return 2 * layout.num_microbatches if layout.zero == 3 else 1


def gathered_bytes_each(model: Transformer, layout: Layout, gradient_bytes: float) -> float:
    """Bytes per element of the all-gather after the reduce-scatter: parameters, or summed gradients without ZeRO.

    An all-reduce of gradients is a reduce-scatter plus an all-gather of the same bytes.
    """
    return model.number_bytes if layout.zero else gradient_bytes


def gradient_bytes(model: Transformer, layout: Layout, stage: int = 0, bytes_each: float | None = None) -> float:
    """Bytes that the data-parallel axis sends per step: a reduce-scatter of gradients and all-gathers of parameters.

    bytes_each: bytes per gradient element [default: those of a parameter].
    DDP (whose all-reduce gathers gradients), ZeRO-1 and ZeRO-2 send 2(N-1)/N of the stage's parameters. ZeRO-3 gathers
    them for the forward and again for the backward: 3(N-1)/N (arXiv 1910.02054, section 7).
    """
    shard = parameters_on_stage(model, layout, stage)
    reductions, gathers = reductions_of(layout), gathers_of(layout)
    bytes_each = bytes_each or model.number_bytes
    gathered_each = gathered_bytes_each(model, layout, bytes_each)

    def of(sharers: int, parameters: float) -> float:
        reduced = ring_reduce_scatter_bytes(sharers, bytes_each * parameters)
        return reductions * reduced + gathers * ring_all_gather_bytes(sharers, gathered_each * parameters)

    return of(layout.state_sharers, shard.dense) + of(layout.expert_sharers, shard.experts)


def traffic_of_step(model: Transformer, layout: Layout, stage: int = 0) -> AxisTraffic:
    """Bytes that one rank sends per step; full recomputation repeats the forward's collectives in the backward."""
    layers = model.layers / layout.pp
    moe_share = model.moe_layers / model.layers
    runs = layout.num_microbatches
    again = 1 + layout.again
    tp, cp, ep = (of(model, layout) * layers * runs for of in (tp_layer_bytes, cp_layer_bytes, ep_layer_bytes))
    pp = pp_boundary_bytes(model, layout) * runs * layout.virtual
    return AxisTraffic(
        tp_forward=tp,
        tp_backward=tp * again,
        cp_forward=cp * cp_passes(layout)[0],
        cp_backward=cp * cp_passes(layout)[1],
        ep_forward=ep * moe_share,
        ep_backward=ep * moe_share * again,
        pp_forward=pp,
        pp_backward=pp,
        dp=gradient_bytes(model, layout, stage),
    )
