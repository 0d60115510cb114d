# %% right_number_by_number
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


# %% right_walk
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


# %% forgets_the_offset
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


# %% empty_pieces of="forgets_the_offset"
"""Wrong: opens every file, for nothing."""

# -            if begin < end:
# -                plan.append((file, offset + begin - file * old, offset + end - file * old))
# +            if True:
# +                plan.append((file, offset + begin - file * old, offset + max(begin, end) - file * old))
# +        offset += old

# %% file_major of="forgets_the_offset"
"""Wrong: file after file, so that the units mix."""

# -    return plan
# +        offset += old
# +    return sorted(plan)

# %% offset_by_the_new_slices of="forgets_the_offset"
"""Wrong: skips the new slices in the old files."""

#                  plan.append((file, offset + begin - file * old, offset + end - file * old))
# +        offset += new

# %% offset_by_the_unit of="forgets_the_offset"
"""Wrong: skips whole units."""

#                  plan.append((file, offset + begin - file * old, offset + end - file * old))
# +        offset += size

# %% one_number_at_a_time of="forgets_the_offset"
"""Wrong: a piece for each number."""

# -                plan.append((file, offset + begin - file * old, offset + end - file * old))
# +                plan += [(file, offset + n - file * old, offset + n + 1 - file * old) for n in range(begin, end)]
# +        offset += old

# %% places_in_the_whole of="forgets_the_offset"
"""Wrong: places in the whole vector, not in the file."""

# -                plan.append((file, offset + begin - file * old, offset + end - file * old))
# +                plan.append((file, begin, end))
# +        offset += old

# %% reads_padding of="forgets_the_offset"
"""Wrong: reads to the end of its slice, padding and all."""

# -            end = min((rank + 1) * new, (file + 1) * old, size)
# +            end = min((rank + 1) * new, (file + 1) * old)

#                  plan.append((file, offset + begin - file * old, offset + end - file * old))
# +        offset += old

# %% rounds_down of="forgets_the_offset"
"""Wrong: a slice has size // N numbers."""

# -        old, new = -(-size // num_files), -(-size // num_ranks)
# +        old, new = size // num_files, size // num_ranks

#                  plan.append((file, offset + begin - file * old, offset + end - file * old))
# +        offset += old

# %% whole_files of="forgets_the_offset"
"""Wrong: reads files from end to end."""

# -                plan.append((file, offset + begin - file * old, offset + end - file * old))
# +                plan.append((file, offset, offset + old))
# +        offset += old

# %% one_vector
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


# %% two_files_a_rank
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
