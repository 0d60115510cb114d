"""1F1B: a rank runs a backward as soon as it can, so that it holds few activations."""

from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Kind, Schedule, Slot, passes


def one_f_one_b(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r: warm up with P-1-r forwards, alternate F and B, cool down with the remaining backwards.

    GPipe's bubble (P-1)/(M+P-1), but min(P-r, M) activations on rank r.
    Source: Narayanan et al., "PipeDream", 2019; PTD-P, 2021, arXiv 2104.04473, figure 4, above.
    """
    need_sizes(num_ranks, num_microbatches)
    return [_one_rank(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _one_rank(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    forwards = passes(Kind.F, rank, range(num_microbatches))
    backwards = passes(Kind.B, rank, range(num_microbatches))
    num_warmup = min(num_ranks - 1 - rank, num_microbatches)

    warmup = forwards[:num_warmup]
    steady = [slot for pair in zip(forwards[num_warmup:], backwards, strict=False) for slot in pair]
    cooldown = backwards[num_microbatches - num_warmup :]
    return warmup + steady + cooldown
