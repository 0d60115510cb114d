"""Different: builds the package's actions and spells them out."""

from shardlab.pipeline_parallel.schedule import Kind, passes


def gpipe(num_ranks, num_microbatches):
    numbers = range(num_microbatches)
    schedule = [passes(Kind.F, rank, numbers) + passes(Kind.B, rank, numbers) for rank in range(num_ranks)]
    return [[str(slot) for slot in slots] for slots in schedule]
