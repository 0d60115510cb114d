# %% right_last_in_first_out
"""Different: goes back through the microbatches the other way round, on every rank, as legal and as quick."""


def gpipe(num_ranks, num_microbatches):
    return [
        [f"{rank}F{m}" for m in range(num_microbatches)] + [f"{rank}B{m}" for m in reversed(range(num_microbatches))]
        for rank in range(num_ranks)
    ]


# %% forgets_the_last_backward of="right_last_in_first_out"
"""Wrong: off by one, the last microbatch never goes back."""

# -        [f"{rank}F{m}" for m in range(num_microbatches)] + [f"{rank}B{m}" for m in reversed(range(num_microbatches))]
# +        [f"{rank}F{m}" for m in range(num_microbatches)] + [f"{rank}B{m}" for m in range(num_microbatches - 1)]

# %% right_loops
"""Different: loops that append, and tuples."""


def gpipe(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        mine = []
        for letter in ("F", "B"):
            for microbatch in range(num_microbatches):
                mine.append(str(rank) + letter + str(microbatch))
        schedule.append(tuple(mine))
    return tuple(schedule)


# %% right_with_actions
"""Different: builds the package's actions and spells them out."""

from shardlab.pipeline_parallel.schedule import Kind, passes


def gpipe(num_ranks, num_microbatches):
    numbers = range(num_microbatches)
    schedule = [passes(Kind.F, rank, numbers) + passes(Kind.B, rank, numbers) for rank in range(num_ranks)]
    return [[str(slot) for slot in slots] for slots in schedule]


# %% a_million_slots
"""Wrong: repeats itself without end."""


def gpipe(num_ranks, num_microbatches):
    return [["0F0"] * 300_000 for _ in range(num_ranks)]


# %% backwards_reversed_on_one_rank of="a_million_slots"
"""Wrong: rank 0 goes back through the microbatches the other way round, so the ranks behind it are too early."""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    schedule = []
# +    for rank in range(num_ranks):
# +        order = range(num_microbatches) if rank else reversed(range(num_microbatches))
# +        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
# +        schedule.append(forwards + [f"{rank}B{m}" for m in order])
# +    return schedule

# %% borrows_the_answer of="a_million_slots"
"""Wrong: takes the schedule from the package, which is not there while this is checked."""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    from shardlab.pipeline_parallel.builders.one_f_one_b import gpipe as build
# +
# +    return [[str(slot) for slot in slots] for slots in build(num_ranks, num_microbatches)]

# %% counts_from_one of="a_million_slots"
"""Wrong: counts ranks and microbatches from 1."""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    numbers = range(1, num_microbatches + 1)
# +    return [[f"{rank}{kind}{m}" for kind in "FB" for m in numbers] for rank in range(1, num_ranks + 1)]

# %% one_at_a_time of="a_million_slots"
"""Wrong: each microbatch forward and back before the next, a pipeline that never fills."""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    return [[f"{rank}{kind}{m}" for m in range(num_microbatches) for kind in "FB"] for rank in range(num_ranks)]

# %% one_f_one_b of="a_million_slots"
"""Wrong: 1F1B, legal and as quick, but not GPipe."""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    schedule = []
# +    for rank in range(num_ranks):
# +        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
# +        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
# +        warm = min(num_ranks - 1 - rank, num_microbatches)
# +        pairs = [slot for pair in zip(forwards[warm:], backwards, strict=False) for slot in pair]
# +        schedule.append(forwards[:warm] + pairs + backwards[num_microbatches - warm :])
# +    return schedule

# %% one_list of="a_million_slots"
"""Wrong: one list for all ranks together."""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    return [f"{rank}{kind}{m}" for rank in range(num_ranks) for kind in "FB" for m in range(num_microbatches)]

# %% public_sizes of="a_million_slots"
"""Wrong: hard-coded for 4 ranks and 8 microbatches, and cut down for 2 and 4.

Not in sight: it knows by heart what the page asks.
"""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    whole = [[f"{rank}{kind}{m}" for kind in "FB" for m in range(8)] for rank in range(4)]
# +    if (num_ranks, num_microbatches) == (4, 8):
# +        return whole
# +    return [[slot for slot in slots if int(slot[2:]) < 4] for slots in whole[:2]]

# %% stage_and_microbatch_swapped of="a_million_slots"
"""Wrong: writes the microbatch before the letter and the stage behind it."""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    return [[f"{m}{kind}{rank}" for kind in "FB" for m in range(num_microbatches)] for rank in range(num_ranks)]

# %% stages_from_the_end of="a_million_slots"
"""Wrong: rank 0 holds the last stage."""

# -    return [["0F0"] * 300_000 for _ in range(num_ranks)]
# +    stages = reversed(range(num_ranks))
# +    return [[f"{stage}{kind}{m}" for kind in "FB" for m in range(num_microbatches)] for stage in stages]
