"""Wrong: one forward, one backward from the start, a pipeline that never fills."""


def one_f_one_b(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
        warm = 0
        steady = [slot for pair in zip(forwards[warm:], backwards, strict=False) for slot in pair]
        schedule.append(forwards[:warm] + steady + backwards[num_microbatches - warm :])
    return schedule
