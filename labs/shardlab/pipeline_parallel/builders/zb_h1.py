"""ZB-H1: 1F1B with a split backward and weight gradients in the bubble. It holds no more activations than 1F1B."""

from shardlab.pipeline_parallel.builders.lane import Lane
from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Schedule, Slot


def zb_h1(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r: P-1-r forwards, then F I. From the r-th pair on, each pair is followed by the W of r
    microbatches earlier.

    The later a rank's stage, the later its first W. Rank r keeps r of them for the end, when it waits for no other
    rank. At F = I = W each rank idles P-1 units, a third of 1F1B's 3(P-1), with P activations (until W).
    Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, arXiv 2401.10241, figure 3 and section 2.
    """
    need_sizes(num_ranks, num_microbatches)
    return [_one_rank(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _one_rank(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    lane = Lane({rank: range(num_microbatches)})
    for _ in range(num_ranks - 1 - rank):  # warm up
        lane.forward(rank)
    for pair in range(num_microbatches):  # F I W, then I W once the forwards are done
        lane.forward(rank)
        lane.input_gradient(rank)
        if pair >= rank:
            lane.weight_gradient()
    while lane.weights_left():
        lane.weight_gradient()
    return lane.slots
