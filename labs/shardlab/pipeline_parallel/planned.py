"""A planned step's pipeline, played on the clock of the schedules: the planner's formula of the bubble, checked.

The cost model counts with formulas, because a planner looks at thousands of layouts; here the schedule of one of them
is built slot by slot and simulated with the same seconds of each stage.
"""

from shardlab.costs.clock.step import Pipeline
from shardlab.costs.layout import Layout
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.simulation import Timeline, simulate

PLAYED = {"1f1b": "1f1b", "gpipe": "gpipe", "zero-bubble": "zb-h1", "zbv": "zbv", "dualpipe": "dualpipe"}
ROUNDS = 4  # of p microbatches, after which every further one adds the same


def play(pipeline: Pipeline, layout: Layout) -> Timeline:
    """The schedule of a layout, or of its first ROUNDS p microbatches, with hops as messages between its stages."""
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
    """Seconds of all microbatches: those played, and each further one as long as on the slowest stage with its hops."""
    slowest = max(stage.both for stage in pipeline.stages) + 2 * layout.virtual * pipeline.hop
    return play(pipeline, layout).makespan + (layout.num_microbatches - _played(layout)) * slowest


def _schedule(layout: Layout) -> Schedule:
    if layout.virtual > 1:
        return BUILDERS["interleaved"](layout.pp, _played(layout), layout.virtual)
    return BUILDERS[PLAYED[layout.schedule]](layout.pp, _played(layout))


def _played(layout: Layout) -> int:
    return min(layout.num_microbatches, ROUNDS * layout.pp)


def _chunks(pipeline: Pipeline, layout: Layout):
    """Passes of each of the p v chunks, v times as long as they are; the output layer is in the last one alone."""
    each = layout.chunks // layout.pp
    layers = [pipeline.layer.times(count) for count in pipeline.layers] * each
    return [*layers[:-1], layers[-1] + pipeline.output.times(each)]
