"""Seconds of a step on this CPU in float32, from its calibration: rates by size and the cost of messages.

GPUs are modeled by peaks and shares of them, but this machine was measured: `calibrated` has the times of its matmuls,
other operations, Adam and messages. All ranks share its cores. A message between two ranks costs what was measured with
the total number of ranks, whatever the size of the group, since all of them wait for the same cores.
"""

from itertools import pairwise

from shardlab.costs.axis_traffic import activation_bytes_of, gathers_of, pp_boundary_bytes, reductions_of
from shardlab.costs.clock.calibrated import FP32, adam_step_seconds, matmul_seconds, moved_seconds
from shardlab.costs.clock.calibration import Calibration, Together
from shardlab.costs.clock.kernels import (
    NOTHING,
    LayerSeconds,
    Passes,
    elementwise_bytes,
    tokens_of,
    total,
    with_recomputation,
)
from shardlab.costs.clock.parts import Parts
from shardlab.costs.clock.setup import Setup
from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.memory.states import parameters_on_stage
from shardlab.costs.models.model import Transformer
from shardlab.costs.traffic import Link, all_gather_seconds, all_reduce_seconds, reduce_scatter_seconds

AGREEMENT_BYTES = 64  # of a step's two sums over all ranks: valid tokens; the loss and squared gradients
MEASURED_BYTES = 38  # elementwise bytes, in bf16, per element of a layer's input in the model of `pass_seconds`


def parts_of(model: Transformer, layout: Layout, setup: Setup) -> Parts:
    """Costs of one microbatch on this machine. Raises ValueError for fp8, which CPUs do not have."""
    if setup.fp8:
        raise ValueError("this CPU has no fp8: plan without it")
    here, slowdown = calibration_of(setup.gpu), slowdown_of(calibration_of(setup.gpu), at_work(layout, setup.gpu))
    moe = model.moe_layers / model.layers
    layers = []
    for share, experts in ((1 - moe, False), (moe, True)):
        if share:
            layer = _layer(model, layout, here, experts=experts, imbalance=setup.imbalance)
            passes = with_recomputation(layer, layout, setup.software, layer.elementwise.forward)
            layers.append(passes.times(share))
    return Parts(
        kernels=total(layers).times(slowdown),
        tensor=_again(_tensor(model, layout, setup.gpu), layout),
        context=_again(_context(model, layout, setup.gpu), layout),
        expert=_again(_expert(model, layout, setup).times(moe), layout),
        output=_output(model, layout, here).times(slowdown) + _ends(model, layout, setup.gpu),
        hop=_hop(model, layout, setup.gpu),
    )


def calibration_of(gpu: Accelerator) -> Calibration:
    assert gpu.measured is not None
    return gpu.measured


# ---- work ------------------------------------------------------------------------------------------------------------


def at_work(layout: Layout, gpu: Accelerator) -> float:
    """How many ranks compute at once: all except those that wait for other stages, which leave their core to others."""
    slots = layout.virtual * layout.num_microbatches
    return max(1.0, gpu.per_node * slots / (slots + layout.pp - 1))


def slowdown_of(here: Calibration, ranks: float) -> float:
    """How many times longer a rank computes while `ranks` do: interpolated, proportional beyond the last one."""
    known = [(1, 1.0), *((n, together.slowdown) for n, together in sorted(here.ranks.items()))]
    for (few, fast), (many, slow) in pairwise(known):
        if ranks <= many:
            return fast + (slow - fast) * (ranks - few) / (many - few)
    last, slow = known[-1]
    return slow * max(1.0, ranks / max(last, here.cores))


def _products(here: Calibration, *shapes: tuple[float, float, float, float]) -> Passes:
    """(rows, inner, columns, how many): forward, and twice that for the gradients of inputs and weights."""
    third = sum(many * matmul_seconds(here.matmul["float32"], *shape) for *shape, many in shapes)
    return Passes(third, 2 * third, third)


def _layer(
    model: Transformer, layout: Layout, here: Calibration, *, experts: bool, imbalance: float = 1.0
) -> LayerSeconds:
    """A layer's passes on one rank with a core to itself.

    An elementwise operation costs as much per byte as in the calibration's model, whose MLP is 4h wide.
    """
    tokens, h, t = tokens_of(model, layout), model.hidden, layout.tp
    wide = 2 if model.gated else 1
    shapes = [(tokens, h, (model.query_width + 2 * model.kv_width) / t, 1.0), (tokens, model.value_width / t, h, 1.0)]
    width = float(model.ffn)
    if experts:
        each, local = model.expert_ffn, model.experts / layout.ep
        rows = tokens / t * model.active_experts * (imbalance if layout.ep > 1 else 1.0) / local
        shapes += [(rows, h, wide * each, local), (rows, each, h, local)]
        shared = model.shared_experts * each
        shapes += [(tokens, h, wide * shared / t, 1.0), (tokens, shared / t, h, 1.0)] if shared else []
        width = float((model.active_experts + model.shared_experts) * each)
    else:
        shapes += [(tokens, h, wide * width / t, 1.0), (tokens, width / t, h, 1.0)]
    heads, own = layout.microbatch * model.heads / t, model.sequence / layout.cp
    attention = _products(here, (own, model.query_width / model.heads, model.sequence, 2 * heads))
    _, operations, number = here.pass_seconds
    elementwise = number * tokens * elementwise_bytes(model, layout, width) / MEASURED_BYTES
    return LayerSeconds(
        products=_products(here, *shapes),
        attention=Passes(attention.forward, attention.backward),
        elementwise=Passes(elementwise / 3, 2 * elementwise / 3),
        launch=operations / 2,
        waits=True,
    )


def _output(model: Transformer, layout: Layout, here: Calibration) -> Passes:
    """The output layer, the loss and the fixed cost of a pass: logits are moved about four times each way."""
    tokens, vocab = tokens_of(model, layout), model.vocab / layout.tp
    once, *_ = here.pass_seconds
    loss = moved_seconds(here, FP32 * tokens * vocab, 4) + once / 2
    return _products(here, (tokens, model.hidden, vocab, 1.0)) + Passes(loss, loss)


def optimizer(model: Transformer, layout: Layout, gpu: Accelerator) -> float:
    """Adam on every tensor, or with ZeRO on the shard of one long tensor."""
    here, shard = calibration_of(gpu), parameters_on_stage(model, layout, 0)
    tensors, numbers = 12 * model.layers / layout.pp + 4, shard.total
    if layout.zero:
        tensors = 1 if layout.zero < 3 else model.layers / layout.pp + 1
        numbers = shard.dense / layout.state_sharers + shard.experts / layout.expert_sharers
    return slowdown_of(here, gpu.per_node) * adam_step_seconds(here, round(tensors), numbers)


# ---- messages --------------------------------------------------------------------------------------------------------


def together_of(gpu: Accelerator) -> tuple[Together, float]:
    """How this many ranks affect each other, and a factor: beyond the measured number, costs grow in proportion."""
    here, ranks = calibration_of(gpu), gpu.per_node
    known = [n for n in sorted(here.ranks) if n <= ranks] or sorted(here.ranks)[:1]
    if not known:
        return Together(1.0, 0.0, {}), 1.0
    return here.ranks[known[-1]], max(1.0, ranks / known[-1])


def link_of(gpu: Accelerator, kind: str) -> Link:
    """alpha and beta of one kind of message among all ranks."""
    together, more = together_of(gpu)
    alpha, beta = together.links.get(kind, Link(0.0, 0.0))
    return Link(alpha * more, beta * more)


def _wait(gpu: Accelerator) -> float:
    """Seconds until the last rank of a group reaches a message inside a layer."""
    together, more = together_of(gpu)
    return together.waits * more


def _send(gpu: Accelerator, num_bytes: float) -> float:
    alpha, beta = link_of(gpu, "send")
    return alpha + beta * num_bytes


def _collective(gpu: Accelerator, kind: str, size: int, num_bytes: float) -> float:
    """Seconds of a collective on a whole tensor in a group of `size` among all ranks."""
    if size == 1:
        return 0.0
    seconds = {
        "all_reduce": all_reduce_seconds,
        "all_gather": all_gather_seconds,
        "reduce_scatter": reduce_scatter_seconds,
    }
    alpha, beta = link_of(gpu, kind)
    return seconds[kind](size, num_bytes, alpha=alpha, beta=beta)


def _inside(gpu: Accelerator, kind: str, size: int, num_bytes: float) -> float:
    """A collective inside a layer, which its ranks do not reach at the same moment."""
    return _collective(gpu, kind, size, num_bytes) + (_wait(gpu) if size > 1 else 0.0)


def _again(once: Passes, layout: Layout) -> Passes:
    """Messages of a recomputed forward, repeated in the backward."""
    return Passes(once.forward, once.backward + layout.again * once.forward)


def _tensor(model: Transformer, layout: Layout, gpu: Accelerator) -> Passes:
    """Two all-reduces each way. With sequence parallelism: gathers and reduce-scatters, and the backward repeats the
    forward's gathers.
    """
    sent = activation_bytes_of(model, layout)
    if not layout.sequence_parallel:
        both = 2 * _inside(gpu, "all_reduce", layout.tp, sent)
        return Passes(both, both)
    gather, scatter = (_inside(gpu, kind, layout.tp, sent) for kind in ("all_gather", "reduce_scatter"))
    return Passes(2 * gather + 2 * scatter, 4 * gather + 2 * scatter)


def _ends(model: Transformer, layout: Layout, gpu: Accelerator) -> Passes:
    """A split sequence is gathered once for the output layer, twice in the backward, and split after the embedding."""
    if not layout.sequence_parallel:
        return NOTHING
    sent = activation_bytes_of(model, layout)
    gather, scatter = (_inside(gpu, kind, layout.tp, sent) for kind in ("all_gather", "reduce_scatter"))
    return Passes(gather + scatter, 2 * gather + scatter)


def _context(model: Transformer, layout: Layout, gpu: Accelerator) -> Passes:
    """Keys and values go around the ring, and in the backward their gradients too; an all-to-all takes as many
    messages.
    """
    if layout.cp == 1:
        return NOTHING
    pair = 2 * model.number_bytes * tokens_of(model, layout) * model.kv_width / layout.tp
    turn = (layout.cp - 1) * (_send(gpu, pair) + _wait(gpu))
    return Passes(turn, 2 * turn)


def _expert(model: Transformer, layout: Layout, setup: Setup) -> Passes:
    """Dispatch and combine each way, with a message to each other rank."""
    if layout.ep == 1 or not model.experts:
        return NOTHING
    rows = tokens_of(model, layout) / layout.tp * model.active_experts * setup.imbalance
    each = _send(setup.gpu, model.number_bytes * rows * model.hidden / layout.ep)
    both = 2 * ((layout.ep - 1) * each + _wait(setup.gpu))
    return Passes(both, both)


def _hop(model: Transformer, layout: Layout, gpu: Accelerator) -> float:
    """A message to the next stage, which is busy with its own work until then."""
    return _send(gpu, pp_boundary_bytes(model, layout)) + _wait(gpu) if layout.pp > 1 else 0.0


def tied(model: Transformer, layout: Layout, gpu: Accelerator) -> float:
    """The two copies of a tied embedding's gradient, sent to each other."""
    if not model.tied or layout.pp == 1:
        return 0.0
    return _send(gpu, FP32 * model.vocab * model.hidden / layout.tp)


def data(model: Transformer, layout: Layout, gpu: Accelerator) -> float:
    """Gradients and parameters between the ranks that share them, and the step's two sums over all ranks."""
    shard = parameters_on_stage(model, layout, 0)
    agreements = 2 * _collective(gpu, "all_reduce", layout.world, AGREEMENT_BYTES)
    groups = ((layout.state_sharers, shard.dense), (layout.expert_sharers, shard.experts))

    def of(kind: str) -> float:
        calls = model.layers / layout.pp + 1 if layout.zero == 3 else 1
        return sum(
            calls * _collective(gpu, kind, sharers, FP32 * numbers / calls) for sharers, numbers in groups if numbers
        )

    if not layout.zero:
        return agreements + of("all_reduce")
    return agreements + reductions_of(layout) * of("reduce_scatter") + gathers_of(layout) * of("all_gather")
