"""Wrong: rank 0 obeys the cap, the others warm up as in 1F1B, and wait for forwards that cannot come."""


def capped(num_ranks, num_microbatches, max_activations):
    schedule = []
    for rank in range(num_ranks):
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
        warm = min(num_ranks - 1 - rank, num_microbatches)
        if rank == 0:
            warm = min(warm, max_activations - 1)
        steady = [slot for pair in zip(forwards[warm:], backwards, strict=False) for slot in pair]
        schedule.append(forwards[:warm] + steady + backwards[num_microbatches - warm :])
    return schedule
