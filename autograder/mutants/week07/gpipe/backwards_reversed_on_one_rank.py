"""Wrong: rank 0 goes back through the microbatches the other way round, so the ranks behind it are too early."""


def gpipe(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        order = range(num_microbatches) if rank else reversed(range(num_microbatches))
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        schedule.append(forwards + [f"{rank}B{m}" for m in order])
    return schedule
