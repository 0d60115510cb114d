"""Why a plan wins: the cost of each layout that differs in one size, doubled or halved, or in one choice."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

from shardlab.costs.clock.step import StepSeconds
from shardlab.costs.context import ContextWay
from shardlab.costs.hardware import GIB, Accelerator
from shardlab.costs.layout import Layout, check_layout, ends_alone, with_global_batch
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.planner import Plan, Search, memory_of, seconds_of, usable_bytes

UNTRIED = "the search did not try it"
TRADED = (
    ("tp", "dp"),
    ("tp", "pp"),
    ("pp", "dp"),
    ("cp", "dp"),
)  # one doubles, the other halves: the number of GPUs stays the same


@dataclass(frozen=True)
class Neighbour:
    """A layout one step away. plan: its cost, None if it is impossible. reason: why it loses, as a clause."""

    change: str
    plan: Plan | None
    fits: bool
    reason: str


def neighbours(
    model: Transformer,
    gpu: Accelerator,
    winner: Plan,
    *,
    fp8: bool = False,
    imbalance: float = 1.0,
    search: Search | None = None,
    clock: Callable[..., StepSeconds] | None = None,
) -> list[Neighbour]:
    """The layouts around a plan with the same number of GPUs and the same batch, each with the reason why it loses.

    search: whose recomputations and schedules to try [default: the planner's own]. clock: step time of (model, layout,
    gpu), if the winner was not timed by the formulas.
    """
    clock = clock or partial(seconds_of, fp8=fp8, imbalance=imbalance)
    search = search or Search()
    return [
        _neighbour(model, gpu, winner, change, changed, clock, fp8)
        for change, changed in _moves(model, winner.layout, search)
    ]


def _neighbour(
    model: Transformer,
    gpu: Accelerator,
    winner: Plan,
    change: str,
    changed: dict,
    clock: Callable[..., StepSeconds],
    fp8: bool,
) -> Neighbour:
    try:
        layout = _moved(model, winner.layout, changed)
        check_layout(model, layout)
    except ValueError as error:
        return Neighbour(change, None, False, f"impossible: {error}")
    if "virtual" not in changed and layout.virtual != winner.layout.virtual:
        change += f", virtual {layout.virtual}"
    memory = memory_of(model, layout, fp8=fp8)
    found = Plan(layout, memory, clock(model, layout, gpu))
    too_much = memory.total - usable_bytes(gpu)
    if too_much > 0:
        return Neighbour(change, found, False, f"does not fit: {too_much / GIB:.1f} GiB too much")
    return Neighbour(change, found, True, what_grew(winner, found))


def what_grew(winner: Plan, other: Plan) -> str:
    """The part of the step that grew most or, if the step time is equal, the difference in memory."""
    slower = other.step.total - winner.step.total
    parts, before = vars(other.step), vars(winner.step)
    part = max(parts, key=lambda name: parts[name] - before[name])
    if slower > 1e-9 * winner.step.total:
        return f"{part}: {parts[part] - before[part]:.2f} s more"
    larger = other.memory.total - winner.memory.total
    if slower < -1e-9 * winner.step.total:
        return f"faster: {UNTRIED}"
    if larger < 0:
        return f"the same time, {-larger / GIB:.1f} GiB less: {UNTRIED}"
    return f"the same time, {larger / GIB:.1f} GiB more" if larger else "no difference in these formulas"


def _moved(model: Transformer, layout: Layout, changed: dict) -> Layout:
    """The layout with these fields changed, the microbatches that keep the batch, and as many chunks as possible."""
    fields = {name: value for name, value in changed.items() if name != "virtual"}
    tp, schedule = changed.get("tp", layout.tp), fields.pop("schedule", layout.schedule)
    plain = {"virtual": 1, "schedule": "1f1b", "recomputed": None, "sequence_parallel": tp > 1}
    moved = with_global_batch(replace(layout, **plain, **fields), layout.sequences_per_step)
    moved = replace(moved, schedule=schedule if moved.pp > 1 else "1f1b")
    rounds_are_full = moved.pp > 1 and moved.num_microbatches % moved.pp == 0 and schedule == "1f1b"
    most = max(1, model.layers // moved.pp) if rounds_are_full else 1
    most += ends_alone(model, replace(moved, virtual=most + 1)) if rounds_are_full else 0
    moved = replace(moved, virtual=changed.get("virtual", min(layout.virtual, most)))
    if layout.recomputed is None or "recompute" in fields:
        return moved
    each = -(-model.layers // moved.chunks)
    return replace(moved, recomputed=(max(1, round(layout.again * each)), each))


def _moves(model: Transformer, layout: Layout, search: Search) -> Iterator[tuple[str, dict]]:
    """What changes, as text and as fields."""
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
    yield from _choices(model, layout, search)


def _choices(model: Transformer, layout: Layout, search: Search) -> Iterator[tuple[str, dict]]:
    """The same for choices that are names, not sizes."""
    for recompute in search.recompute:
        now = layout.recompute if layout.recomputed is None else "some"
        if recompute != now and (recompute != "selective" or not model.flash):
            yield f"recompute {recompute}", {"recompute": recompute}
    for way in get_args(ContextWay):
        if layout.cp > 1 and way != layout.context:
            yield f"cp by {way.replace('ulysses', 'Ulysses')}", {"context": way}
    for schedule in search.schedules:
        if schedule != layout.schedule and layout.pp > 1 and layout.virtual == 1:
            yield schedule, {"schedule": schedule}
