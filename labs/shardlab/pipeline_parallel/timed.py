"""Time plans slot by slot, with whole layers in each chunk, so that the printed seconds are simulated ones.

Formulas rank thousands of layouts using average stages. Here the fastest layouts are cut into whole layers, each
cut is simulated, and a plan takes the seconds of its best cut.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import accumulate

from shardlab.costs.clock.kernels import NOTHING, Passes
from shardlab.costs.clock.setup import Setup
from shardlab.costs.clock.step import Pipeline, StepSeconds, pipeline_of, step_seconds
from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.partition import Cut, cuts, of_kind
from shardlab.costs.planning.planner import Plan
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.planned import PLAYED
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.simulation import simulate

ROUNDS = 3  # simulated rounds of p microbatches; each further microbatch takes as long as one of the last round
MOST_SLOTS = 1_500_000  # for all simulated plans together; plans beyond this keep the formula


def timed(model: Transformer, plans: Sequence[Plan], setup: Setup) -> list[Plan]:
    """The same plans, each with its best cut into chunks and that cut's seconds, fastest first.

    A plan without a pipeline is unchanged, and so is one whose schedule would exceed MOST_SLOTS; it gets no cut.
    """
    left, done = MOST_SLOTS, []
    for one in plans:
        if one.layout.pp > 1 and slots_of(one.layout) <= left:
            left -= slots_of(one.layout)
            done.append(time_plan(model, one, setup))
        else:
            done.append(one)
    return sorted(done, key=lambda one: (one.step.total, one.memory.total))


def slots_of(layout: Layout) -> int:
    """The number of forwards and backwards needed to simulate one cut of a layout."""
    return 2 * (2 * ROUNDS - 1) * layout.pp * layout.chunks


def time_plan(model: Transformer, plan: Plan, setup: Setup) -> Plan:
    """The plan with its fastest cut and that cut's seconds. The step's parts are those of the busiest rank."""
    kinds = _kinds(model, replace(plan.layout, zero=0), setup)
    output = next(iter(kinds.values())).output
    order = [False] * (model.layers - model.moe_layers) + [True] * model.moe_layers
    layers = [kinds[experts].layer for experts in order]
    tried = dict.fromkeys(cuts(model, plan.layout, [layer.both for layer in layers], output.both))
    hop = next(iter(kinds.values())).hop
    pipeline = _alone(plan.layout)
    played = {cut: seconds_of_cut(tuple(_chunks(layers, output, cut)), hop, pipeline) for cut in tried}
    best = min(played, key=played.__getitem__)
    return replace(plan, step=_parts(plan, best, order, kinds, played[best]), cut=best)


def _alone(layout: Layout) -> Layout:
    """Only the fields of a layout that determine its schedule, so that plans differing elsewhere share a simulation."""
    return Layout(
        pp=layout.pp, virtual=layout.virtual, num_microbatches=layout.num_microbatches, schedule=layout.schedule
    )


def played_clock(model: Transformer, setup: Setup):
    """A clock for `neighbours`: the seconds of a layout, simulated if it has a pipeline that is not too long."""

    def clock(_: Transformer, layout: Layout, __: object) -> StepSeconds:
        step = step_seconds(model, layout, setup)
        held = Plan(layout, memory=None, step=step)  # type: ignore[arg-type]
        short = slots_of(layout) <= MOST_SLOTS / 10
        return time_plan(model, held, setup).step if layout.pp > 1 and short else step

    return clock


@lru_cache(maxsize=512)
def seconds_of_cut(chunks: tuple[Passes, ...], hop: float, layout: Layout) -> float:
    """Seconds of all microbatches through chunks with these passes, in the schedule of a layout."""
    durations = Durations(
        forward=[chunk.forward for chunk in chunks],
        input_gradient=[chunk.backward - chunk.weights for chunk in chunks],
        weight_gradient=[chunk.weights for chunk in chunks],
        message=hop,
    )
    few = layout.pp * (ROUNDS - 1)
    if layout.num_microbatches <= few + layout.pp:
        return simulate(_schedule(layout, layout.num_microbatches), durations).makespan
    begin, end = (simulate(_schedule(layout, num), durations).makespan for num in (few, few + layout.pp))
    return end + (layout.num_microbatches - few - layout.pp) * (end - begin) / layout.pp


def _schedule(layout: Layout, num_microbatches: int) -> Schedule:
    return _built(
        "interleaved" if layout.virtual > 1 else PLAYED[layout.schedule], layout.pp, num_microbatches, layout.virtual
    )


@lru_cache(maxsize=4)  # cuts and recomputations are simulated on the same schedule, which is never modified
def _built(name: str, num_ranks: int, num_microbatches: int, num_chunks: int) -> Schedule:
    chunks = {"num_chunks": num_chunks} if name == "interleaved" else {}
    return BUILDERS[name](num_ranks, num_microbatches, **chunks)


@lru_cache(maxsize=512)
def _kinds(model: Transformer, layout: Layout, setup: Setup) -> dict[bool, Pipeline]:
    """The pipelines of a model of only dense layers and of a model of only MoE layers, for the kinds that occur."""
    there = {False: model.layers > model.moe_layers, True: model.moe_layers > 0}
    return {
        experts: pipeline_of(of_kind(model, experts=experts), layout, setup) for experts, some in there.items() if some
    }


def _chunks(layers: Sequence[Passes], output: Passes, cut: Cut) -> list[Passes]:
    """The passes of each chunk. The output layer is in the last one."""
    begins = accumulate(cut, initial=0)
    chunks = [
        reduce(Passes.__add__, layers[begin : begin + size], NOTHING) for begin, size in zip(begins, cut, strict=False)
    ]
    return [*chunks[:-1], chunks[-1] + output]


def _parts(plan: Plan, cut: Cut, order: Sequence[bool], kinds: dict[bool, Pipeline], played: float) -> StepSeconds:
    """The parts of the step: the busiest rank's kernels and messages, then its waiting for hops and for other ranks."""
    m, layout = plan.layout.num_microbatches, plan.layout
    begins = list(accumulate(cut, initial=0))

    def work(rank: int) -> dict[str, float]:
        share = 0.5 if layout.schedule == "dualpipe" else 1.0
        parts: dict[str, float] = dict.fromkeys(("compute", "tensor", "context", "expert"), 0.0)
        for chunk in chunks_of_rank(layout, rank):
            for experts in order[begins[chunk] : begins[chunk + 1]]:
                kind = kinds[experts]
                for name, passes in (
                    ("compute", kind.kernels),
                    *((part, getattr(kind, part)) for part in list(parts)[1:]),
                ):
                    parts[name] += share * m * passes.both
            if chunk == len(cut) - 1:
                parts["compute"] += share * m * next(iter(kinds.values())).output.both
        return parts

    busiest = max((work(rank) for rank in range(layout.pp)), key=lambda parts: sum(parts.values()))
    waits = max(0.0, played - sum(busiest.values()))
    boundaries = min(waits, plan.step.boundaries)
    rest = {"boundaries": boundaries, "bubble": waits - boundaries}
    return StepSeconds(**busiest, **rest, data=plan.step.data, optimizer=plan.step.optimizer)


def chunks_of_rank(layout: Layout, rank: int) -> list[int]:
    """The chunks that a rank runs: every p-th one, or in a V one from the front and its mirror from the back."""
    if layout.schedule in ("zbv", "dualpipe"):
        return [rank, layout.chunks - 1 - rank]
    return list(range(rank, layout.chunks, layout.pp))
