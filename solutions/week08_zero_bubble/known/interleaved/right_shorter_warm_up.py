"""Different: warms up one hop a rank; as quick where messages are free, and holds less."""


def interleaved(num_ranks, num_microbatches, num_chunks):
    rounds = [range(first, first + num_ranks) for first in range(0, num_microbatches, num_ranks)]
    schedule = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * num_chunks, num_ranks)
        forwards = [f"{stage}F{m}" for part in rounds for stage in stages for m in part]
        backwards = [f"{stage}B{m}" for part in rounds for stage in reversed(stages) for m in part]
        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
        pairs = zip(forwards[warmup:], backwards, strict=False)
        steady = [slot for pair in pairs for slot in pair]
        schedule.append(forwards[:warmup] + steady + backwards[len(forwards) - warmup :])
    return schedule
