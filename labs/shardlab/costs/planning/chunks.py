"""Assign whole layers to chunks when ranks hold several, balancing ranks and chunks together.

A rank's chunks share its time, so ranks are balanced first. Then each rank distributes its layers over its chunks, all
ranks in the same places, so that microbatches find equal chunks in a round.
"""

import math
from collections.abc import Iterator, Sequence

from shardlab.costs.layout import Layout, ends_alone
from shardlab.costs.memory.states import layers_of_stages
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.partition import NOTHING, Piece, partition

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
