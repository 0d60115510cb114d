"""Assign layers of different cost to stages and chunks so that the slowest stage is as fast as possible.

Alpa (arXiv 2201.12023), section 5: a step of m microbatches takes the sum over stages plus (m - 1) times the slowest
stage (equation 2). With the devices of a stage given, the sum is the same for every cut, so the slowest stage decides
(dynamic programming). Each stage must fit in memory with the microbatches it has in flight, min(p - i, m) in 1F1B
(equation 5).

When ranks hold several chunks, the chunks share the rank's time, so ranks are balanced first. Then each rank
distributes its layers over its chunks, all ranks in the same places, so that microbatches find equal chunks in a round.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from shardlab.costs.clock.setup import Setup
from shardlab.costs.clock.step import step_seconds
from shardlab.costs.hardware import GIB, Accelerator
from shardlab.costs.layout import Layout, ends_alone
from shardlab.costs.memory.stage import MemoryBytes, memory_of_stage
from shardlab.costs.memory.states import layers_of_stages
from shardlab.costs.models.model import Transformer


@dataclass(frozen=True)
class Piece:
    """A layer, or everything else on a stage.

    seconds: forward and backward of one microbatch. state_bytes: held permanently. kept_bytes: held from the forward to
    the backward of each microbatch.
    """

    seconds: float = 0.0
    state_bytes: float = 0.0
    kept_bytes: float = 0.0


NOTHING = Piece()


@dataclass(frozen=True)
class Partition:
    """The number of layers of each stage in order, with each stage's seconds per microbatch and peak bytes."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    bytes: tuple[float, ...]

    @property
    def slowest(self) -> float:
        return max(self.seconds)

    def step_seconds(self, num_microbatches: int) -> float:
        """Seconds of all microbatches through all stages: Alpa's equation 2."""
        return sum(self.seconds) + (num_microbatches - 1) * self.slowest


def partition(
    layers: Sequence[Piece],
    num_stages: int,
    *,
    extras: Sequence[Piece] = (),
    num_microbatches: int = 1,
    limit_bytes: float = math.inf,
) -> Partition:
    """Cut the layers into nonempty stages so that the slowest stage is fastest, within each stage's memory.

    extras: one per stage, for everything that is not a layer: the embedding on the first, the output layer on the last.
    Raises ValueError for more stages than layers, for invalid numbers, and if no cut fits, with the least memory
    needed.
    """
    extras = extras or [NOTHING] * num_stages
    _check(layers, num_stages, extras, num_microbatches)
    sums = {name: [0.0, *accumulate(getattr(layer, name) for layer in layers)] for name in vars(NOTHING)}

    def seconds(stage: int, begin: int, end: int) -> float:
        return extras[stage].seconds + sums["seconds"][end] - sums["seconds"][begin]

    def held(stage: int, begin: int, end: int) -> float:
        in_flight = min(num_stages - stage, num_microbatches)
        kept = extras[stage].kept_bytes + sums["kept_bytes"][end] - sums["kept_bytes"][begin]
        states = extras[stage].state_bytes + sums["state_bytes"][end] - sums["state_bytes"][begin]
        return states + in_flight * kept

    def capped(stage: int, begin: int, end: int) -> float:
        return seconds(stage, begin, end) if held(stage, begin, end) <= limit_bytes else math.inf

    cuts = _least_largest(len(layers), num_stages, capped)
    if cuts is None:
        smallest = _least_largest(len(layers), num_stages, held)
        assert smallest
        least = max(held(stage, begin, end) for stage, (begin, end) in enumerate(smallest))
        raise ValueError(
            f"no cut of {len(layers)} layers into {num_stages} stages fits in {limit_bytes / GIB:.3g} GiB: the "
            f"smallest needs {least / GIB:.3g} GiB on its fullest stage, use more stages or recomputation"
        )
    stages = list(enumerate(cuts))
    return Partition(
        sizes=tuple(end - begin for begin, end in cuts),
        seconds=tuple(seconds(stage, *cut) for stage, cut in stages),
        bytes=tuple(held(stage, *cut) for stage, cut in stages),
    )


def _least_largest(
    num_layers: int, num_stages: int, cost: Callable[[int, int, int], float]
) -> list[tuple[int, int]] | None:
    """(begin, end) of each stage that minimize the largest cost(stage, begin, end); None if all are infinite.

    best[end] of s stages is the minimum over begin of max(best[begin] of s - 1 stages, cost of the last stage). A cost
    grows with the layers of a stage, so once a stage is too expensive no longer one is tried.
    """
    best = [0.0, *[math.inf] * num_layers]
    chosen: list[list[int]] = []
    for stage in range(num_stages):
        now, begins = [math.inf] * (num_layers + 1), [0] * (num_layers + 1)
        for end in range(stage + 1, num_layers - (num_stages - stage - 1) + 1):
            for begin in range(end - 1, stage - 1, -1):
                last = cost(stage, begin, end)
                if last >= now[end]:
                    break
                if (largest := max(best[begin], last)) < now[end]:
                    now[end], begins[end] = largest, begin
        best = now
        chosen.append(begins)
    if math.isinf(best[num_layers]):
        return None
    cuts, end = [], num_layers
    for begins in reversed(chosen):
        cuts.append((begins[end], end))
        end = begins[end]
    return cuts[::-1]


def _check(layers: Sequence[Piece], num_stages: int, extras: Sequence[Piece], num_microbatches: int) -> None:
    if not 1 <= num_stages <= len(layers):
        raise ValueError(f"{len(layers)} layers cannot fill {num_stages} stages: use 1 to {len(layers)}")
    if len(extras) != num_stages:
        raise ValueError(f"{len(extras)} extras for {num_stages} stages: give one per stage, or none")
    if num_microbatches < 1:
        raise ValueError(f"{num_microbatches} microbatches: use 1 or more")
    numbers = [number for piece in (*layers, *extras) for number in vars(piece).values()]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError("seconds and bytes of a piece must be finite and 0 or more")


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


Cut = tuple[int, ...]  # layers of each chunk, in the order of the model


def cuts(model: Transformer, layout: Layout, layer_seconds: Sequence[float], output: float) -> Iterator[Cut]:
    """The cuts worth simulating, starting with the one that the formulas assume.

    layer_seconds: of a microbatch through each layer; output: through the output layer. No rank gets more layers than
    ceil(L/p), the number its memory was computed with.
    """
    p, each = layout.pp, layout.chunks // layout.pp
    if ends_alone(model, layout):
        yield (0, *[1] * model.layers, 0)
        return
    plain = layers_of_stages(model.layers, p)
    ends = [NOTHING] * (p - 1)
    extras = [Piece(output), *ends] if layout.schedule == "zbv" else [*ends, Piece(output)]
    counted = [Piece(seconds, state_bytes=1.0) for seconds in layer_seconds]
    balanced = partition(counted, p, extras=extras, limit_bytes=math.ceil(model.layers / p)).sizes
    for sizes in dict.fromkeys((plain, balanced)):
        if each == 1:
            yield sizes
        else:
            dealt = at_least(sizes, each)
            for places in dict.fromkeys((tuple(range(each)), tuple(range(each))[::-1], spread(each))):
                yield deal(dealt, places, v_shaped=layout.schedule == "zbv")


def at_least(sizes: Sequence[int], least: int) -> list[int]:
    """The same total with at least `least` layers on each rank, taken from the fullest ranks."""
    dealt = list(sizes)
    while min(dealt) < least:
        dealt[dealt.index(max(dealt))] -= 1
        dealt[dealt.index(min(dealt))] += 1
    return dealt


def spread(num_chunks: int) -> tuple[int, ...]:
    """The order in which a rank's chunks get an extra layer: every second chunk first."""
    return (*range(0, num_chunks, 2), *range(1, num_chunks, 2))


def deal(sizes: Sequence[int], places: Sequence[int], *, v_shaped: bool = False) -> Cut:
    """Distribute each rank's layers over its chunks, extra layers first to `places`: chunk k of rank r is kp + r.

    v_shaped: the second chunk of rank r is the (r+1)-th from the end.
    """
    p, each = len(sizes), len(places)
    rounds = []
    for chunk in range(each):
        row = [layers // each + (places.index(chunk) < layers % each) for layers in sizes]
        rounds += row[::-1] if v_shaped and chunk else row
    assert len(rounds) == p * each and sum(rounds) == sum(sizes)
    return tuple(rounds)
