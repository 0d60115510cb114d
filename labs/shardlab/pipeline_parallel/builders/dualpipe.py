"""DualPipe, and DualPipeV, which is DualPipe folded into a V."""

from shardlab.pipeline_parallel.builders.eight_steps import eight_steps
from shardlab.pipeline_parallel.builders.lane import Lane, need_sizes
from shardlab.pipeline_parallel.schedule import Schedule, Slot


def dualpipe(num_ranks: int, num_microbatches: int) -> Schedule:
    """Microbatches 0 to M/2-1 enter at rank 0 and pass stage s on rank s; the others enter at rank P-1 and pass
    stage s on rank P-1-s.

    Rank r holds the weights of the stages r and P-1-r: two copies of the model, whose gradients must be added.
    At balance each rank idles (P/2-1)(F&B + B - 3W) and holds P+1 activations.
    Raises ValueError for an odd number of ranks or microbatches, and for fewer than 2P microbatches.
    Source: DeepSeek-V3, 2024, section 3.2.1, figure 5 and table 2.
    """
    need_sizes(num_ranks, num_microbatches, least_ranks=2)
    if num_ranks % 2:
        raise ValueError(f"DualPipe divides the ranks into two halves: use {num_ranks - 1} or {num_ranks + 1} ranks")
    if num_microbatches < 2 * num_ranks:
        raise ValueError(
            f"DualPipe needs 2 microbatches per rank: use {2 * num_ranks} or more, not {num_microbatches}, "
            f"on {num_ranks} ranks"
        )
    if num_microbatches % 2:
        raise ValueError(
            f"half of the microbatches enter at each end: use {num_microbatches - 1} or "
            f"{num_microbatches + 1}, not {num_microbatches}"
        )
    return [_rank_of_dualpipe(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _rank_of_dualpipe(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    to_end = min(rank, num_ranks - 1 - rank)
    near, far = to_end, num_ranks - 1 - to_end
    half = num_microbatches // 2
    from_rank_0, from_last_rank = range(half), range(half, num_microbatches)

    enters_near, enters_far = (from_rank_0, from_last_rank) if rank == to_end else (from_last_rank, from_rank_0)
    lane = Lane({near: enters_near, far: enters_far})
    eight_steps(lane, near, far, to_end=to_end, length=num_ranks // 2, num_microbatches=half)
    return lane.slots


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
    return [_rank_of_dualpipe_v(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _rank_of_dualpipe_v(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    down, up = rank, 2 * num_ranks - 1 - rank
    lane = Lane({down: range(num_microbatches), up: range(num_microbatches)})
    eight_steps(lane, down, up, to_end=rank, length=num_ranks, num_microbatches=num_microbatches)
    return lane.slots
