"""Different: as the page solves it."""


def zb_h1(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        warmup = min(num_ranks - 1 - rank, num_microbatches)
        slots = [f"{rank}F{m}" for m in range(warmup)]
        for m in range(num_microbatches):
            if m + warmup < num_microbatches:
                slots.append(f"{rank}F{m + warmup}")
            slots.append(f"{rank}I{m}")
            if m >= rank:
                slots.append(f"{rank}W{m - rank}")
        first_left = max(0, num_microbatches - rank)
        schedule.append(slots + [f"{rank}W{m}" for m in range(first_left, num_microbatches)])
    return schedule
