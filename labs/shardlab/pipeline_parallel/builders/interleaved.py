"""Interleaved 1F1B: each rank holds several chunks of the model, which divides the bubble by almost that number."""

from shardlab.pipeline_parallel.builders.sizes import need_sizes
from shardlab.pipeline_parallel.schedule import Kind, Schedule, Slot, passes


def interleaved(num_ranks: int, num_microbatches: int, num_chunks: int = 2) -> Schedule:
    """Rank r runs the stages r, r+P, r+2P, ...: a round of microbatches through the first chunk, then the next chunk.

    A round has about P microbatches, and M must be a whole number of equal rounds. Each stage is 1/v as long. The
    bubble is (P-1)/(vM+P-1), at the cost of v times as many messages.
    Raises ValueError if M does not split into rounds, and for fewer than 2 chunks (which would be 1F1B).
    Source: PTD-P, 2021, arXiv 2104.04473, figure 4.
    """
    need_sizes(num_ranks, num_microbatches)
    if isinstance(num_chunks, bool) or not isinstance(num_chunks, int) or num_chunks < 2:
        raise ValueError(f"chunks = {num_chunks} on a rank cannot be interleaved: use 2 or more, or one_f_one_b")
    num_rounds = max(1, num_microbatches // num_ranks)
    if num_microbatches % num_rounds:
        below = num_microbatches // num_ranks * num_ranks
        raise ValueError(
            f"{num_microbatches} microbatches do not split into {num_rounds} equal rounds over {num_ranks} ranks: "
            f"use {below} or {below + num_ranks}"
        )
    return [_one_rank(rank, num_ranks, num_microbatches, num_chunks, num_rounds) for rank in range(num_ranks)]


def _one_rank(rank: int, num_ranks: int, num_microbatches: int, num_chunks: int, num_rounds: int) -> list[Slot]:
    size = num_microbatches // num_rounds
    rounds = [range(begin, begin + size) for begin in range(0, num_microbatches, size)]
    stages = range(rank, num_ranks * num_chunks, num_ranks)
    forwards = [slot for part in rounds for stage in stages for slot in passes(Kind.F, stage, part)]
    backwards = [slot for part in rounds for stage in reversed(stages) for slot in passes(Kind.B, stage, part)]
    num_warmup = min((num_chunks - 1) * size + 2 * (num_ranks - 1 - rank), len(forwards))

    warmup = forwards[:num_warmup]
    steady = [slot for pair in zip(forwards[num_warmup:], backwards, strict=False) for slot in pair]
    cooldown = backwards[len(forwards) - num_warmup :]
    return warmup + steady + cooldown
