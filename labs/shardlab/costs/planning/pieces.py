"""A model in a layout as pieces to cut into stages: the cost of each layer, and of everything at either end."""

from dataclasses import replace

from shardlab.costs.clock.setup import Setup
from shardlab.costs.clock.step import step_seconds
from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.memory.stage import MemoryBytes, memory_of_stage
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.partition import Partition, Piece, partition

NOT_OF_A_LAYER = ("boundaries", "bubble", "data", "optimizer")  # parts of a step


def best_stages(
    model: Transformer,
    layout: Layout,
    gpu: Accelerator,
    *,
    fp8: bool = False,
    imbalance: float = 1.0,
    limit_bytes: float | None = None,
) -> Partition:
    """How many layers each stage should have, in order; with an interleaved schedule, each of the p * v chunks.

    limit_bytes: the memory of a GPU, checked if a rank has one chunk. Raises ValueError if no cut fits.
    """
    layers, extras = pieces_of(model, layout, gpu, fp8=fp8, imbalance=imbalance)
    num_chunks = layout.pp * layout.virtual
    if layout.pp > 1:
        extras = [extras[0], *[extras[1]] * (num_chunks - 2), extras[2]]
    else:
        extras = [Piece(extras[2].seconds, sum(one.state_bytes for one in extras) - 2 * extras[1].state_bytes)]
    cap = {"limit_bytes": limit_bytes} if limit_bytes and layout.virtual == 1 else {}
    return partition(layers, num_chunks, extras=extras, num_microbatches=layout.num_microbatches, **cap)


def pieces_of(
    model: Transformer, layout: Layout, gpu: Accelerator, *, fp8: bool = False, imbalance: float = 1.0
) -> tuple[list[Piece], list[Piece]]:
    """(every layer, [everything else on a first, a middle and a last stage]); gradients are fp32.

    A layer's cost is the difference between models of two and one of its kind; the rest of the latter belongs to the
    ends.
    """
    dense, routed = model.layers - model.moe_layers, model.moe_layers
    kinds = [of_kind(model, experts=experts) for experts, num in ((False, dense), (True, routed)) if num]
    setup = Setup(gpu, fp8=fp8, gradient_bytes=4, imbalance=imbalance)
    layers = [_layer(kind, layout, setup) for kind in kinds]
    kind, layer = kinds[-1], layers[-1]
    held = [_left(_memory(kind, layout, 3, stage).total, layer.state_bytes + layer.kept_bytes) for stage in range(3)]
    output = _left(_seconds(kind, layout, 1, setup), layer.seconds)
    ends = [Piece(state_bytes=held[0]), Piece(state_bytes=held[1]), Piece(output, held[2])]
    return [layers[0]] * dense + [layers[-1]] * routed, ends


def _left(whole: float, layer: float) -> float:
    """The cost of a one-layer stage without the layer; clamped at 0 because of rounding."""
    return max(0.0, whole - layer)


def of_kind(model: Transformer, *, experts: bool) -> Transformer:
    """The model with layers of only one kind: with experts, or without."""
    if experts:
        return replace(model, dense_layers=0)
    return replace(model, dense_layers=0, experts=0, active_experts=0, expert_ffn=0, shared_experts=0)


def _layer(kind: Transformer, layout: Layout, setup: Setup) -> Piece:
    one, two = (_memory(kind, layout, num_layers, 0, pp=1) for num_layers in (1, 2))
    return Piece(
        seconds=_seconds(kind, layout, 2, setup) - _seconds(kind, layout, 1, setup),
        state_bytes=two.states.total - one.states.total,
        kept_bytes=two.activations - one.activations,
    )


def _seconds(kind: Transformer, layout: Layout, num_layers: int, setup: Setup) -> float:
    """Seconds of one microbatch through some layers and the output layer, on one stage."""
    alone = replace(layout, pp=1, virtual=1, num_microbatches=1)
    parts = vars(step_seconds(replace(kind, layers=num_layers), alone, setup))
    return sum(value for name, value in parts.items() if name not in NOT_OF_A_LAYER)


def _memory(kind: Transformer, layout: Layout, num_layers: int, stage: int, pp: int = 3) -> MemoryBytes:
    cut = replace(layout, pp=pp, virtual=1, num_microbatches=1)
    return memory_of_stage(replace(kind, layers=num_layers), cut, stage, gradient_bytes=4)
