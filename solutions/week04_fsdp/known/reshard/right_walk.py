"""Different: walks along each unit from file to file."""


def reading_plan(unit_sizes, num_files, num_ranks, rank):
    plan, skipped = [], 0
    for size in unit_sizes:
        old, new = (size + num_files - 1) // num_files, (size + num_ranks - 1) // num_ranks
        at, stop = rank * new, min(size, rank * new + new)
        while at < stop:
            file, place = divmod(at, old)
            num = min(stop - at, old - place)
            plan.append([file, skipped + place, skipped + place + num])
            at += num
        skipped += old
    return plan
