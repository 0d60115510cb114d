"""V-Half: the V of ZBV with about half of 1F1B's activations, and a bubble between ZBV's and V-Min's."""

from shardlab.pipeline_parallel.builders.building_block import Block, repeated
from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Kind, Schedule


def v_half(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r on the way down and stage 2P-1-r on the way up: the stages of ZBV, in another order.

    A microbatch goes down with two ticks a rank and up with one, forward and backward: it lives 6P ticks, and as a new
    one enters every 6, about P half-size activations are alive, with the W that wait P+2 (P+1 for odd P). The
    slow legs leave free ticks at both ends of the step, into which the passes are pulled.
    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, arXiv 2405.15362, section 3 and figure 4.
    """
    need_sizes(num_ranks, num_microbatches)
    return repeated(_block, num_ranks, num_microbatches)


def _block(rank: int, num_ranks: int) -> Block:
    """When one microbatch passes this rank: (tick, kind, stage)."""
    wait = 3 if num_ranks % 2 == 0 else 0  # else F and I of a chunk would fall on one tick of the period
    down, up = rank, 2 * num_ranks - 1 - rank
    return [
        (2 * rank, Kind.F, down),
        (3 * num_ranks - 2 - rank, Kind.F, up),
        (3 * num_ranks - 1 + wait + 2 * rank, Kind.I, up),
        (6 * num_ranks - 2 + wait - rank, Kind.I, down),
    ]
