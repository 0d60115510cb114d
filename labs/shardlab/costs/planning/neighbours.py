"""Why a plan wins: what each layout costs that differs from it in one size, doubled or halved, or in one choice."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

from shardlab.costs.clock.step import StepSeconds
from shardlab.costs.context import ContextWay
from shardlab.costs.hardware import GIB, Accelerator
from shardlab.costs.layout import Layout, Recompute, ScheduleName, check_layout, with_global_batch
from shardlab.costs.memory import peak_memory
from shardlab.costs.model import Transformer
from shardlab.costs.planning.planner import GRADIENT_BYTES, Plan, seconds_of, usable_bytes

UNTRIED = "the search did not try it"
UNCOUNTED = ", but it reduces in every microbatch, which is not counted: see --pipeline-zero"
TRADED = (("tp", "dp"), ("tp", "pp"), ("pp", "dp"), ("cp", "dp"))  # one doubles, the other halves: the GPUs stay


@dataclass(frozen=True)
class Neighbour:
    """A layout one step away. plan: what it costs, None where it cannot be. reason: why it loses, in a clause."""

    change: str
    plan: Plan | None
    fits: bool
    reason: str


def neighbours(
    model: Transformer, gpu: Accelerator, winner: Plan, *, fp8: bool = False, imbalance: float = 1.0
) -> list[Neighbour]:
    """The layouts around a plan, on as many GPUs and with the same batch, each with why it loses."""
    clock = partial(seconds_of, fp8=fp8, imbalance=imbalance)
    return [_neighbour(model, gpu, winner, change, changed, clock) for change, changed in _moves(model, winner.layout)]


def _neighbour(
    model: Transformer, gpu: Accelerator, winner: Plan, change: str, changed: dict, clock: Callable[..., StepSeconds]
) -> Neighbour:
    try:
        layout = _moved(model, winner.layout, changed)
        check_layout(model, layout)
    except ValueError as error:
        return Neighbour(change, None, False, f"cannot be: {error}")
    if "virtual" not in changed and layout.virtual != winner.layout.virtual:
        change += f", virtual {layout.virtual}"
    memory = peak_memory(model, layout, gradient_bytes=GRADIENT_BYTES)
    found = Plan(layout, memory, clock(model, layout, gpu))
    too_much = memory.total - usable_bytes(gpu)
    if too_much > 0:
        return Neighbour(change, found, False, f"does not fit: {too_much / GIB:.1f} GiB too much")
    return Neighbour(change, found, True, what_grew(winner, found))


def what_grew(winner: Plan, other: Plan) -> str:
    """The part of the step that grew most, or for an equal step what else there is to say."""
    slower = other.step.total - winner.step.total
    parts, before = vars(other.step), vars(winner.step)
    part = max(parts, key=lambda name: parts[name] - before[name])
    if slower > 1e-9 * winner.step.total:
        return f"{part}: {parts[part] - before[part]:.2f} s more"
    larger = other.memory.total - winner.memory.total
    why = UNCOUNTED if cuts_gradients_in_a_pipeline(other.layout) else f": {UNTRIED}"
    if slower < -1e-9 * winner.step.total:
        return f"faster{why}"
    if larger < 0:
        return f"the same time, {-larger / GIB:.1f} GiB less{why}"
    return f"the same time, {larger / GIB:.1f} GiB more" if larger else "these formulas see no difference"


def cuts_gradients_in_a_pipeline(layout: Layout) -> bool:
    """Whether each microbatch reduces its gradients, which the clock counts once per step: too quick for these."""
    return layout.zero == 2 and layout.pp > 1


def _moved(model: Transformer, layout: Layout, changed: dict) -> Layout:
    """The layout with these fields, as many microbatches as keep the batch, and no more chunks than can be."""
    fields = {name: value for name, value in changed.items() if name != "virtual"}
    tp = changed.get("tp", layout.tp)
    moved = with_global_batch(replace(layout, virtual=1, sequence_parallel=tp > 1, **fields), layout.sequences_per_step)
    if "virtual" in changed:
        return replace(moved, virtual=changed["virtual"])
    rounds_are_full = moved.pp > 1 and moved.num_microbatches % moved.pp == 0
    most = max(1, model.layers // moved.pp) if rounds_are_full else 1
    return replace(moved, virtual=min(layout.virtual, most))


def _moves(model: Transformer, layout: Layout) -> Iterator[tuple[str, dict]]:
    """What changes, in words and as fields."""
    for pair in TRADED:
        for more, less in (pair, pair[::-1]):
            if getattr(layout, less) % 2 == 0 and (more != "cp" or model.sequence >= 16384):
                fields = {more: 2 * getattr(layout, more), less: getattr(layout, less) // 2}
                yield ", ".join(f"{name} {size}" for name, size in fields.items()), fields
    sizes = ["microbatch", *(["virtual"] if layout.pp > 1 else []), *(["ep"] if model.experts else [])]
    for name in sizes:
        size = getattr(layout, name)
        for other in (2 * size, *([size // 2] if size % 2 == 0 else [])):
            yield f"{name} {other}", {name: other}
    for zero in (layout.zero - 1, layout.zero + 1):
        if layout.state_sharers > 1 and 0 <= zero <= (2 if layout.pp > 1 else 3):
            yield f"ZeRO {zero}", {"zero": zero}
    yield from _choices(model, layout)


def _choices(model: Transformer, layout: Layout) -> Iterator[tuple[str, dict]]:
    """The same for what has names and no sizes."""
    for recompute in get_args(Recompute):
        if recompute != layout.recompute and (recompute != "selective" or not model.flash):
            yield f"recompute {recompute}", {"recompute": recompute}
    for way in get_args(ContextWay):
        if layout.cp > 1 and way != layout.context:
            yield f"cp by {way.replace('ulysses', 'Ulysses')}", {"context": way}
    for schedule in get_args(ScheduleName):
        if schedule != layout.schedule and layout.pp > 1 and layout.virtual == 1:
            yield schedule, {"schedule": schedule}
