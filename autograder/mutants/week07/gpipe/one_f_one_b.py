"""Wrong: 1F1B, legal and as quick, but not GPipe."""


def gpipe(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
        warm = min(num_ranks - 1 - rank, num_microbatches)
        pairs = [slot for pair in zip(forwards[warm:], backwards, strict=False) for slot in pair]
        schedule.append(forwards[:warm] + pairs + backwards[num_microbatches - warm :])
    return schedule
