"""Wrong: cuts the model as one vector, not unit by unit."""


def reading_plan(unit_sizes, num_files, num_ranks, rank):
    size = sum(unit_sizes)
    old, new = -(-size // num_files), -(-size // num_ranks)
    plan = []
    for file in range(num_files):
        begin, end = max(rank * new, file * old), min((rank + 1) * new, (file + 1) * old, size)
        if begin < end:
            plan.append((file, begin - file * old, end - file * old))
    return plan
