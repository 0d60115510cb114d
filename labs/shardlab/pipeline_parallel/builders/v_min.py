"""V-Min: ZBV's V with the fewest activations, a third of 1F1B's."""

from shardlab.pipeline_parallel.builders.building_block import Block, repeated
from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Kind, Schedule


def v_min(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r on the way down and stage 2P-1-r on the way up: the stages of ZBV, in another order.

    A microbatch goes F down, F up, I down, I up, one rank per tick, so it lives 4P ticks. A new one enters every 6
    ticks, so about 4P/6 half-size activations are alive, or 2 ceil((P+2)/3) with queued W.
    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, arXiv 2405.15362, section 3 and figure 4.
    """
    need_sizes(num_ranks, num_microbatches)
    return repeated(_block, num_ranks, num_microbatches)


def _block(rank: int, num_ranks: int) -> Block:
    """When one microbatch passes this rank: (tick, kind, stage)."""
    wait = 2 if num_ranks % 3 == 0 else 0  # else F and I of a chunk would be on the same tick of the period
    down, up = rank, 2 * num_ranks - 1 - rank
    return [
        (rank, Kind.F, down),
        (2 * num_ranks - 1 - rank, Kind.F, up),
        (2 * num_ranks + wait + rank, Kind.I, up),
        (4 * num_ranks - 1 + wait - rank, Kind.I, down),
    ]
