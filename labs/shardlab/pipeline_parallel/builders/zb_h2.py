"""ZB-H2: twice the warm-up of 1F1B, so that no rank waits between its first and its last slot."""

from shardlab.pipeline_parallel.builders.lane import Lane
from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Schedule, Slot


def zb_h2(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r: 2(P-1-r) forwards, then F I. From the 2r-th pair on, each pair is followed by the W of 2r
    microbatches earlier, and every I without an F is also followed by a W.

    At F = I = W and M >= 2P-1 no rank idles within its own span, and it holds 2P-1 activations until W. By makespan,
    P-1 idle units remain, because the ranks begin one after another.
    Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, arXiv 2401.10241, figure 3, the lower half.
    """
    need_sizes(num_ranks, num_microbatches)
    return [_one_rank(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _one_rank(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    lane = Lane({rank: range(num_microbatches)})
    for _ in range(2 * (num_ranks - 1 - rank)):
        lane.forward(rank)
    for pair in range(num_microbatches):
        alone = not lane.forwards_left(rank)
        lane.forward(rank)
        lane.input_gradient(rank)
        if pair >= 2 * rank or alone:
            lane.weight_gradient()
    while lane.weights_left():
        lane.weight_gradient()
    return lane.slots
