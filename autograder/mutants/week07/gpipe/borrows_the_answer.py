"""Wrong: takes the schedule from the package, which is not there while this is checked."""


def gpipe(num_ranks, num_microbatches):
    from shardlab.pipeline_parallel.builders.gpipe import gpipe as build

    return [[str(slot) for slot in slots] for slots in build(num_ranks, num_microbatches)]
