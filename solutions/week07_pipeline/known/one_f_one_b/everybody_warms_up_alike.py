"""Wrong: P-1 forwards on every rank, the last rank holds as much as the first."""


def one_f_one_b(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
        warm = min(num_ranks - 1, num_microbatches)
        steady = [slot for pair in zip(forwards[warm:], backwards, strict=False) for slot in pair]
        schedule.append(forwards[:warm] + steady + backwards[num_microbatches - warm :])
    return schedule
