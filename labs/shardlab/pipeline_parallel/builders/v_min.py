"""V-Min: the V of ZBV with the fewest activations, a third of 1F1B's."""

from shardlab.pipeline_parallel.builders.fill import fill_with_weights
from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Action, Kind, Schedule, Slot

PERIOD = 6  # ticks: F, I and W of two chunks


def v_min(num_ranks: int, num_microbatches: int) -> Schedule:
    """Repeat one building block, microbatch after microbatch, every 6 ticks.

    The block is one microbatch on its way: F down, F up, I down, I up, one rank a tick, without a wait but the one
    that keeps two passes of a rank off the same tick. So a microbatch lives 4P ticks, and 4P/6 of them at a time.
    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, arXiv 2405.15362, section 3 and figure 4.
    """
    need_sizes(num_ranks, num_microbatches)
    core = [_one_rank(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]
    return fill_with_weights(core, max_activations=most_alive(num_ranks))


def most_alive(num_ranks: int) -> int:
    """Half-size activations on a rank of V-Min, counted until W: 2 ceil((P+2)/3)."""
    return 2 * ((num_ranks + 2 + 2) // 3)


def _one_rank(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    last = num_ranks - 1
    down, up = rank, last + num_ranks - rank
    wait = 2 if num_ranks % 3 == 0 else 0  # else F and I of a chunk would meet on one tick
    block = [
        (rank, Kind.F, down),
        (num_ranks + last - rank, Kind.F, up),
        (2 * num_ranks + wait + rank, Kind.I, up),
        (3 * num_ranks + wait + last - rank, Kind.I, down),
    ]
    ticks = [
        (tick + PERIOD * microbatch, Action(kind, stage, microbatch))
        for microbatch in range(num_microbatches)
        for tick, kind, stage in block
    ]
    return [action for _, action in sorted(ticks, key=lambda entry: entry[0])]
