"""Different: as the page solves it."""


def overlapped_1f1b(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
        slots = [f"{rank}F{m}" for m in range(ahead)]
        slots += [f"({rank}F{m + ahead};{rank}B{m})OVERLAP_F_B" for m in range(num_microbatches - ahead)]
        slots += [f"{rank}B{m}" for m in range(num_microbatches - ahead, num_microbatches)]
        schedule.append(slots)
    return schedule
