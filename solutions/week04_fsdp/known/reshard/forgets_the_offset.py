"""Wrong: every unit begins at 0 of its file."""


def reading_plan(unit_sizes, num_files, num_ranks, rank):
    plan, offset = [], 0
    for size in unit_sizes:
        old, new = -(-size // num_files), -(-size // num_ranks)
        for file in range(num_files):
            begin = max(rank * new, file * old)
            end = min((rank + 1) * new, (file + 1) * old, size)
            if begin < end:
                plan.append((file, offset + begin - file * old, offset + end - file * old))
    return plan
