"""Different: asks each number where it is, then joins neighbours."""


def reading_plan(unit_sizes, num_files, num_ranks, rank):
    import math

    places, skipped = [], 0
    for size in unit_sizes:
        old, new = math.ceil(size / num_files), math.ceil(size / num_ranks)
        places += [(n // old, skipped + n % old) for n in range(rank * new, min(size, (rank + 1) * new))]
        skipped += old
    plan = []
    for file, place in places:
        if plan and plan[-1][0] == file and plan[-1][2] == place:
            plan[-1] = (file, plan[-1][1], place + 1)
        else:
            plan.append((file, place, place + 1))
    return plan
