"""ZBV: two chunks per rank in the shape of a V, so that the loss is computed on the rank where the V starts."""

from shardlab.pipeline_parallel.builders.fill import fill_with_weights
from shardlab.pipeline_parallel.builders.lane import Lane
from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Schedule, Slot


def zbv(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r on the way down and stage 2P-1-r on the way up. W are placed where a rank would wait.

    At F = I = W and M >= 2P no rank idles within its own span, with 2P half-size activations, the memory of 1F1B.
    Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, arXiv 2401.10241, section 6, figure 7.
    """
    need_sizes(num_ranks, num_microbatches)
    core = [_one_rank(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]
    return fill_with_weights(core, max_activations=2 * num_ranks)


def _one_rank(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    down, up = rank, 2 * num_ranks - 1 - rank
    to_turn = num_ranks - 1 - rank  # hops to the turn of the V
    lane = Lane({down: range(num_microbatches), up: range(num_microbatches)})

    for _ in range(2 * to_turn + 1):  # F down
        lane.forward(down)
    for _ in range(rank):  # F up, F down: microbatches return from the turn
        lane.forward(up)
        lane.forward(down)
    for _ in range(to_turn + 1):  # F I up
        lane.forward(up)
        lane.input_gradient(up)
    for _ in range(num_microbatches):  # steady: F I down, F I up
        lane.forward(down)
        lane.input_gradient(down)
        lane.forward(up)
        lane.input_gradient(up)
    return lane.slots
