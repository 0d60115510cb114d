# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% all_ahead of="right_as_taught"
"""Wrong: every rank as far ahead as rank 0, which holds more than needed."""

# -        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
# +        ahead = min(2 * num_ranks - 1, num_microbatches)

# %% backward_of_the_same of="right_as_taught"
"""Wrong: pairs an F with the B of the same microbatch."""

# -        slots += [f"({rank}F{m + ahead};{rank}B{m})OVERLAP_F_B" for m in range(num_microbatches - ahead)]
# -        slots += [f"{rank}B{m}" for m in range(num_microbatches - ahead, num_microbatches)]
# +        slots += [f"({rank}F{m + ahead};{rank}B{m + ahead})OVERLAP_F_B" for m in range(num_microbatches - ahead)]
# +        slots += [f"{rank}B{m}" for m in range(ahead)]

# %% forgets_the_last of="right_as_taught"
"""Wrong: the cooldown is one backward short."""

# -        slots += [f"{rank}B{m}" for m in range(num_microbatches - ahead, num_microbatches)]
# +        slots += [f"{rank}B{m}" for m in range(num_microbatches - ahead, num_microbatches - 1)]

# %% gpipe of="right_as_taught"
"""Wrong: all forwards first."""

# -        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
# +        ahead = num_microbatches

# %% never_pairs of="right_as_taught"
"""Wrong: the same order one by one, every transfer in sight."""

# -        slots += [f"({rank}F{m + ahead};{rank}B{m})OVERLAP_F_B" for m in range(num_microbatches - ahead)]
# +        slots += [slot for m in range(num_microbatches - ahead) for slot in (f"{rank}F{m + ahead}", f"{rank}B{m}")]

# %% no_cap of="right_as_taught"
"""Wrong: with few microbatches the warm-up takes some that there are not."""

# -        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
# +        ahead = 2 * (num_ranks - 1 - rank) + 1

# %% no_extra_forward of="right_as_taught"
"""Wrong: one forward short; a pair would wait for itself."""

# -        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
# +        ahead = min(2 * (num_ranks - 1 - rank), num_microbatches)

# %% two_more of="right_as_taught"
"""Wrong: two forwards more than needed, and their activations."""

# -        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
# +        ahead = min(2 * (num_ranks - 1 - rank) + 3, num_microbatches)

# %% warm_up_of_1f1b of="right_as_taught"
"""Wrong: 1F1B's warm-up and one; pairs wait for each other along the pipeline."""

# -        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
# +        ahead = min(num_ranks - rank, num_microbatches)

# %% right_split_cooldown
"""Different: one counter for both directions, and a B that has no partner is split into I and W."""


def overlapped_1f1b(num_ranks, num_microbatches):
    ranks = [[] for _ in range(num_ranks)]
    for rank, slots in enumerate(ranks):
        lead = 2 * (num_ranks - rank) - 1
        for tick in range(num_microbatches + lead):
            forward, backward = tick, tick - lead
            if forward >= num_microbatches:
                if backward >= 0:
                    slots += [f"{rank}I{backward}", f"{rank}W{backward}"]
            elif backward < 0:
                slots.append(f"{rank}F{forward}")
            else:
                slots.append(f"({rank}F{forward};{rank}B{backward})OVERLAP_F_B")
    return ranks


# %% right_zip
"""Different: zips forwards with backwards."""

from itertools import zip_longest


def overlapped_1f1b(num_ranks, num_microbatches):
    def lane(rank):
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
        warmup = 1 + 2 * (num_ranks - 1 - rank)
        yield from forwards[:warmup]
        for forward, backward in zip_longest(forwards[warmup:], backwards):
            yield f"({forward};{backward})OVERLAP_F_B" if forward else backward

    return tuple(list(lane(rank)) for rank in range(num_ranks))
