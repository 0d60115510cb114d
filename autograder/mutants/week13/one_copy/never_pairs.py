"""Wrong: the same order one by one, every transfer in sight."""


def overlapped_1f1b(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
        slots = [f"{rank}F{m}" for m in range(ahead)]
        slots += [slot for m in range(num_microbatches - ahead) for slot in (f"{rank}F{m + ahead}", f"{rank}B{m}")]
        slots += [f"{rank}B{m}" for m in range(num_microbatches - ahead, num_microbatches)]
        schedule.append(slots)
    return schedule
