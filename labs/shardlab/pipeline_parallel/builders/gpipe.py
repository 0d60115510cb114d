"""GPipe: all forwards, then all backwards."""

from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Kind, Schedule, passes


def gpipe(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r: M forwards, then M backwards. Bubble (P-1)/(M+P-1), and M activations on every rank.

    Source: Huang et al., "GPipe", 2019, arXiv 1811.06965, figure 2.
    """
    need_sizes(num_ranks, num_microbatches)
    microbatches = range(num_microbatches)
    return [passes(Kind.F, rank, microbatches) + passes(Kind.B, rank, microbatches) for rank in range(num_ranks)]
