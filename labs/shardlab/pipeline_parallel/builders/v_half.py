"""V-Half: ZBV's V with about half of 1F1B's activations, and a bubble between those of ZBV and V-Min."""

from shardlab.pipeline_parallel.builders.building_block import Block, repeated
from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Kind, Schedule


def v_half(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r on the way down and stage 2P-1-r on the way up: the stages of ZBV, in another order.

    In both forward and backward, a microbatch takes two ticks per rank on the way down and one on the way up, so it
    lives 6P ticks. A new one enters every 6 ticks, so about P half-size activations are alive, or P+2 with queued W
    (P+1 for odd P). The slow legs leave free ticks at both ends of the step, into which passes are moved.
    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, arXiv 2405.15362, section 3 and figure 4.
    """
    need_sizes(num_ranks, num_microbatches)
    return repeated(_block, num_ranks, num_microbatches)


def _block(rank: int, num_ranks: int) -> Block:
    """When one microbatch passes this rank: (tick, kind, stage)."""
    wait = 3 if num_ranks % 2 == 0 else 0  # else F and I of a chunk would be on the same tick of the period
    down, up = rank, 2 * num_ranks - 1 - rank
    return [
        (2 * rank, Kind.F, down),
        (3 * num_ranks - 2 - rank, Kind.F, up),
        (3 * num_ranks - 1 + wait + 2 * rank, Kind.I, up),
        (6 * num_ranks - 2 + wait - rank, Kind.I, down),
    ]
