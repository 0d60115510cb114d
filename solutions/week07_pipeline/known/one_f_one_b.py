# %% right_counting
"""Different: appends a forward as long as fewer than P-r are held, else a backward."""


def one_f_one_b(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        mine, forwards, backwards = [], 0, 0
        while backwards < num_microbatches:
            if forwards < num_microbatches and forwards - backwards < num_ranks - rank:
                mine.append(f"{rank}F{forwards}")
                forwards += 1
            else:
                mine.append(f"{rank}B{backwards}")
                backwards += 1
        schedule.append(mine)
    return schedule


# %% right_generator
"""Different: a generator of one rank's slots with three loops."""


def slots_of(rank, num_ranks, num_microbatches):
    warm = min(num_ranks - 1 - rank, num_microbatches)
    for m in range(warm):
        yield f"{rank}F{m}"
    for m in range(num_microbatches - warm):
        yield f"{rank}F{warm + m}"
        yield f"{rank}B{m}"
    for m in range(num_microbatches - warm, num_microbatches):
        yield f"{rank}B{m}"


def one_f_one_b(num_ranks, num_microbatches):
    return [list(slots_of(rank, num_ranks, num_microbatches)) for rank in range(num_ranks)]


# %% right_sorted
"""Different: gives every slot the time at which it would begin and sorts."""


def one_f_one_b(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        held = num_ranks - rank
        order = [(2 * (m - held) + 1 if m >= held else m - 1000, f"{rank}F{m}") for m in range(num_microbatches)]
        order += [(2 * m, f"{rank}B{m}") for m in range(num_microbatches)]
        schedule.append([slot for _, slot in sorted(order)])
    return schedule


# %% borrows_the_answer
"""Wrong: takes the schedule from the package, which is not there while this is checked."""


def one_f_one_b(num_ranks, num_microbatches):
    from shardlab.pipeline_parallel import builders

    return [[str(slot) for slot in slots] for slots in builders.one_f_one_b(num_ranks, num_microbatches)]


# %% everybody_warms_up_alike
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


# %% backward_first_in_a_pair of="everybody_warms_up_alike"
"""Wrong: backward before forward in each pair, the last rank goes back before it went forward."""

# -        warm = min(num_ranks - 1, num_microbatches)
# -        steady = [slot for pair in zip(forwards[warm:], backwards, strict=False) for slot in pair]
# +        warm = min(num_ranks - 1 - rank, num_microbatches)
# +        steady = [slot for pair in zip(backwards, forwards[warm:], strict=False) for slot in pair]

# %% forgets_few_microbatches of="everybody_warms_up_alike"
"""Wrong: warms up with forwards that are not there when there are fewer microbatches than ranks."""

# -        warm = min(num_ranks - 1, num_microbatches)
# +        warm = num_ranks - 1 - rank

# %% forgets_the_cool_down of="everybody_warms_up_alike"
"""Wrong: ends with the last pair, backwards are missing."""

# -        warm = min(num_ranks - 1, num_microbatches)
# +        warm = min(num_ranks - 1 - rank, num_microbatches)

# -        schedule.append(forwards[:warm] + steady + backwards[num_microbatches - warm :])
# +        schedule.append(forwards[:warm] + steady + [])

# %% gpipe of="everybody_warms_up_alike"
"""Wrong: all forwards first, legal and as quick, but every rank holds all microbatches."""

# -        warm = min(num_ranks - 1, num_microbatches)
# +        warm = num_microbatches

# %% no_warm_up of="everybody_warms_up_alike"
"""Wrong: one forward, one backward from the start, a pipeline that never fills."""

# -        warm = min(num_ranks - 1, num_microbatches)
# +        warm = 0

# %% public_sizes of="everybody_warms_up_alike"
"""Wrong: warm-ups hard-coded for 4 ranks."""

# -        warm = min(num_ranks - 1, num_microbatches)
# +        warm = [3, 2, 1, 0][rank + 4 - num_ranks]

# %% warms_up_the_wrong_way of="everybody_warms_up_alike"
"""Wrong: the last rank warms up longest, which can never run."""

# -        warm = min(num_ranks - 1, num_microbatches)
# +        warm = min(rank, num_microbatches)

# %% warms_up_too_long of="everybody_warms_up_alike"
"""Wrong: one forward more than the paper, one activation more on every rank."""

# -        warm = min(num_ranks - 1, num_microbatches)
# +        warm = min(num_ranks - rank, num_microbatches)

# %% warms_up_too_short of="everybody_warms_up_alike"
"""Wrong: a forward too few, ranks wait."""

# -        warm = min(num_ranks - 1, num_microbatches)
# +        warm = max(min(num_ranks - 2 - rank, num_microbatches), 0)
