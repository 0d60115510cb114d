"""Wrong: plain 1F1B, as quick as can be and above the cap."""


def capped(num_ranks, num_microbatches, max_activations):
    schedule = []
    for rank in range(num_ranks):
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
        warm = min(num_ranks - 1 - rank, num_microbatches)
        steady = [slot for pair in zip(forwards[warm:], backwards, strict=False) for slot in pair]
        schedule.append(forwards[:warm] + steady + backwards[num_microbatches - warm :])
    return schedule
