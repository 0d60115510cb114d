"""Wrong: counts on num_files being a multiple."""


def reading_plan(unit_sizes, num_files, num_ranks, rank):
    per_rank = num_files // num_ranks
    plan, offset = [], 0
    for size in unit_sizes:
        old = -(-size // num_files)
        for file in range(rank * per_rank, (rank + 1) * per_rank):
            end = min(old, size - file * old)
            if end > 0:
                plan.append((file, offset, offset + end))
        offset += old
    return plan
