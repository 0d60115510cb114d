"""Parameters, gradients and optimizer states of one rank: 16 bytes per parameter, and how ZeRO splits them.

P parameters on a rank, N ranks that hold the same ones (arXiv 1910.02054, figure 1; mixed-precision Adam).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer, dense_layer_parameters, expert_parameters, moe_layer_parameters

WEIGHT_BYTES, GRADIENT_BYTES = 2, 2  # bf16 or fp16, as in the paper; the planner uses 4-byte gradients
OPTIMIZER_BYTES = 12  # fp32 master weight, momentum and variance, 4 each
MASTER_BYTES = 4  # of these, for the master weight; 0 if the weights themselves are fp32


@dataclass(frozen=True)
class StageParameters:
    """Parameters on one rank: dense ones, shared by d*c ranks, and experts, shared by fewer."""

    dense: float
    experts: float

    @property
    def total(self) -> float:
        return self.dense + self.experts


@dataclass(frozen=True)
class StateBytes:
    """Bytes of one rank that persist between steps."""

    parameters: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer


def zero_state_bytes(
    num_parameters: float,
    num_ranks: int,
    stage: int,
    gradient_bytes: float = GRADIENT_BYTES,
    *,
    weight_bytes: float = WEIGHT_BYTES,
) -> StateBytes:
    """StateBytes of P parameters: 16P -> 4P + 12P/N -> 2P + 14P/N -> 16P/N for ZeRO stages 0, 1, 2, 3.

    gradient_bytes: 4 if gradients are summed in fp32, which turns 16P into 18P. weight_bytes: 4 in fp32, where the
    weights are their own master weights. Raises ValueError for other stages.
    """
    if stage not in range(4) or num_ranks < 1 or num_parameters < 0:
        raise ValueError(
            f"ZeRO stage {stage} of {num_parameters} parameters over {num_ranks} ranks: use stage 0, 1, 2 or 3, "
            "0 or more parameters and 1 or more ranks"
        )
    split = [num_ranks if stage >= needed else 1 for needed in (3, 2, 1)]
    optimizer_bytes = OPTIMIZER_BYTES - (MASTER_BYTES if weight_bytes == MASTER_BYTES else 0)
    return StateBytes(
        parameters=weight_bytes * num_parameters / split[0],
        gradients=gradient_bytes * num_parameters / split[1],
        optimizer=optimizer_bytes * num_parameters / split[2],
    )


def bytes_per_parameter(gradient_bytes: float = GRADIENT_BYTES, weight_bytes: float = WEIGHT_BYTES) -> str:
    """The bytes of a parameter before ZeRO splits anything, as text."""
    one = zero_state_bytes(1, 1, 0, gradient_bytes, weight_bytes=weight_bytes)
    held = "momentum and variance" if weight_bytes == MASTER_BYTES else "master weight, momentum and variance"
    return (
        f"{one.total:g} bytes per parameter before ZeRO: weight {one.parameters:g}, gradient {one.gradients:g}, "
        f"Adam {one.optimizer:g} ({held} in fp32)"
    )


def shard_elements(num_parameters: int, num_ranks: int) -> tuple[int, int]:
    """Elements per rank in equal shards, ceil(P/N), and the padding needed."""
    if num_parameters < 0 or num_ranks < 1:
        raise ValueError(f"{num_parameters} parameters over {num_ranks} ranks: use 0 or more over 1 or more")
    shard = -(-num_parameters // num_ranks)
    return shard, shard * num_ranks - num_parameters


def assign_owners(sizes: Sequence[int], num_ranks: int) -> list[int]:
    """The owner of each parameter: largest first, each to the first rank with the least so far.

    No rank gets more than an even share plus one parameter (Graham 1969: longest processing time first).
    """
    owners, load = [0] * len(sizes), [0] * num_ranks
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        owners[place] = load.index(min(load))
        load[owners[place]] += sizes[place]
    return owners


@cache
def layers_of_stages(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage: L/p. A remainder gives the first stages one more each, or the two end stages one less.

    The ends have one less if p divides L + 2: input and output embeddings then count as a layer (Llama 3, arXiv
    2407.21783, section 3.3.2; BLOOM's --pp-partition-method type:transformer|embedding).
    """
    each, rest = divmod(layers, stages)
    if rest and (layers + 2) % stages == 0:
        return (each, *[each + 1] * (stages - 2), each)
    return (each + 1,) * rest + (each,) * (stages - rest)


def layers_on_stage(model: Transformer, layout: Layout, stage: int = 0) -> int:
    return layers_of_stages(model.layers, layout.pp)[stage]


def moe_layers_on_stage(model: Transformer, layout: Layout, stage: int = 0) -> int:
    """Number of a stage's layers with experts: all except the model's first dense layers."""
    layers = layers_on_stage(model, layout, stage)
    if not model.experts:
        return 0
    before = sum(layers_of_stages(model.layers, layout.pp)[:stage]) if model.dense_layers else 0
    return layers - min(layers, max(0, model.dense_layers - before))


def parameters_on_stage(model: Transformer, layout: Layout, stage: int = 0) -> StageParameters:
    """Parameters of one rank of a stage, with the average number of expert layers: for times and traffic.

    Its layers and an embedding at either end, all split over t. Norms and biases of a layer, about 13h next to 12h^2,
    are split here as well. The last stage of a tied model keeps a copy of the embedding.
    """
    return _both(
        model, layout, stage, lambda held: layers_on_stage(model, layout, held) * model.moe_layers / model.layers
    )


def held_parameters(model: Transformer, layout: Layout, stage: int = 0) -> StageParameters:
    """The same, but with dense layers of a mixture where they are, at the front: for memory."""
    return _both(model, layout, stage, lambda held: moe_layers_on_stage(model, layout, held))


def ends_held(layout: Layout, stage: int) -> tuple[bool, bool]:
    """Whether a rank holds the embedding and whether it holds the output layer; in a V one rank holds both."""
    first, last = stage == 0, stage == layout.pp - 1
    if layout.schedule == "zbv":
        return first, first
    return (first or last, first or last) if layout.schedule == "dualpipe" else (first, last)


def _both(model: Transformer, layout: Layout, stage: int, moe: Callable[[int], float]) -> StageParameters:
    """A rank's stage and, in DualPipe, also its mirror image."""
    mine = _parameters(model, layout, stage, moe(stage))
    if layout.schedule != "dualpipe":
        return mine
    other = layout.pp - 1 - stage
    mirrored = _parameters(model, layout, other, moe(other))
    return StageParameters(mine.dense + mirrored.dense, mine.experts + mirrored.experts)


def _parameters(model: Transformer, layout: Layout, stage: int, moe: float) -> StageParameters:
    is_mirrored = layout.schedule == "dualpipe"  # the other half of the pair is counted separately
    first, last = (stage == 0, stage == layout.pp - 1) if is_mirrored else ends_held(layout, stage)
    output = last and not (layout.pp == 1 and model.tied)
    return _of_layers(model, layout.tp, layout.ep, layers_on_stage(model, layout, stage), moe, first, output)


@lru_cache(maxsize=4096)  # the planner asks for a few hundred of them millions of times
def _of_layers(
    model: Transformer, tp: int, ep: int, layers: int, moe: float, embedding: bool, output: bool
) -> StageParameters:
    dense = (layers - moe) * dense_layer_parameters(model) if layers > moe else 0.0
    experts = 0.0
    if moe:
        routed = model.experts * expert_parameters(model)
        dense += moe * (moe_layer_parameters(model) - routed)
        experts = moe * routed / ep
    if embedding:
        dense += (model.vocab + model.positions) * model.hidden
    if output:
        dense += model.vocab * model.hidden
    return StageParameters(dense / tp, experts)


def state_bytes(
    model: Transformer, layout: Layout, stage: int = 0, *, gradient_bytes: float = GRADIENT_BYTES
) -> StateBytes:
    """Bytes of states on one rank of a stage.

    ZeRO-2 with a pipeline shards a chunk's gradients after its microbatches in a row: until then one chunk's gradients
    are whole, or one layer's if each microbatch is reduced separately. DualPipe's two copies share what ZeRO splits.
    """
    shard = held_parameters(model, layout, stage)
    copies = 2 if layout.schedule == "dualpipe" else 1
    whole = 0.0
    if layout.zero == 2 and layout.pp > 1:
        parts = layout.virtual if layout.virtual > 1 else layers_on_stage(model, layout, stage)
        whole = gradient_bytes * shard.total / parts

    def of(parameters: float, sharers: int) -> StateBytes:
        return zero_state_bytes(
            parameters, copies * sharers, layout.zero, gradient_bytes, weight_bytes=model.number_bytes
        )

    dense, experts = of(shard.dense, layout.state_sharers), of(shard.experts, layout.expert_sharers)
    return StateBytes(
        parameters=dense.parameters + experts.parameters,
        gradients=dense.gradients + experts.gradients + whole,
        optimizer=dense.optimizer + experts.optimizer,
    )
