"""DualPipeV: DualPipe cut in half and folded into a V, so that every stage is held by only one rank."""

from shardlab.pipeline_parallel.builders.eight_steps import eight_steps
from shardlab.pipeline_parallel.builders.lane import Lane
from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Schedule, Slot


def dualpipe_v(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r on the way down and stage 2P-1-r on the way up; all microbatches enter at rank 0.

    At balance each rank idles (P-1)(F&B + B - 3W), with 2P+1 half-size activations.
    Raises ValueError for fewer than 2P microbatches.
    Source: deepseek-ai/DualPipe, dualpipev.py; "cut-in-half", Sea AI Lab, 2025.
    """
    need_sizes(num_ranks, num_microbatches)
    if num_microbatches < 2 * num_ranks:
        raise ValueError(
            f"DualPipeV needs 2 microbatches per rank: use {2 * num_ranks} or more, not {num_microbatches}, "
            f"on {num_ranks} ranks"
        )
    return [_one_rank(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _one_rank(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    down, up = rank, 2 * num_ranks - 1 - rank
    lane = Lane({down: range(num_microbatches), up: range(num_microbatches)})
    eight_steps(lane, down, up, to_end=rank, length=num_ranks, num_microbatches=num_microbatches)
    return lane.slots
