"""Simulate a planned step's pipeline, to check the planner's bubble formula.

The cost model uses formulas, because a planner considers thousands of layouts. Here the schedule of one layout is built
slot by slot and simulated with the same seconds per stage.
"""

from shardlab.costs.clock.step import Pipeline
from shardlab.costs.layout import Layout
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.simulation import Timeline, simulate

PLAYED = {"1f1b": "1f1b", "gpipe": "gpipe", "zero-bubble": "zb-h1", "zbv": "zbv", "dualpipe": "dualpipe"}
ROUNDS = 4  # rounds of p microbatches; after these, each further microbatch adds the same time


def play(pipeline: Pipeline, layout: Layout) -> Timeline:
    """Simulate a layout's schedule with at most ROUNDS * p microbatches, with hops as messages between stages."""
    times = [stage.times(layout.pp / layout.chunks) for stage in _chunks(pipeline, layout)]
    return simulate(
        _schedule(layout),
        Durations(
            forward=[stage.forward for stage in times],
            input_gradient=[stage.backward - stage.weights for stage in times],
            weight_gradient=[stage.weights for stage in times],
            message=pipeline.hop,
        ),
    )


def played_seconds(pipeline: Pipeline, layout: Layout) -> float:
    """Seconds of all microbatches: the simulated ones, plus the slowest stage with its hops for each further one."""
    slowest = max(stage.both for stage in pipeline.stages) + 2 * layout.virtual * pipeline.hop
    return play(pipeline, layout).makespan + (layout.num_microbatches - _played(layout)) * slowest


def _schedule(layout: Layout) -> Schedule:
    if layout.virtual > 1:
        return BUILDERS["interleaved"](layout.pp, _played(layout), layout.virtual)
    return BUILDERS[PLAYED[layout.schedule]](layout.pp, _played(layout))


def _played(layout: Layout) -> int:
    return min(layout.num_microbatches, ROUNDS * layout.pp)


def _chunks(pipeline: Pipeline, layout: Layout):
    """The passes of each of the p v chunks, v times their real length. Only the last chunk has the output layer."""
    each = layout.chunks // layout.pp
    layers = [pipeline.layer.times(count) for count in pipeline.layers] * each
    return [*layers[:-1], layers[-1] + pipeline.output.times(each)]
