# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% backward_before_forward of="right_as_taught"
"""Wrong: I before the F of the same turn; the last rank would need what it has not computed."""

#          for m in range(num_microbatches):
# +            slots.append(f"{rank}I{m}")

# -            slots.append(f"{rank}I{m}")

# %% delay_one_only of="right_as_taught"
"""Wrong: every rank but the first puts off one W."""

# -            if m >= rank:
# -                slots.append(f"{rank}W{m - rank}")
# -        first_left = max(0, num_microbatches - rank)
# +            if m >= min(rank, 1):
# +                slots.append(f"{rank}W{m - min(rank, 1)}")
# +        first_left = max(0, num_microbatches - min(rank, 1))

# %% delay_the_other_way of="right_as_taught"
"""Wrong: the first ranks put their W off, the last does not."""

# -            if m >= rank:
# -                slots.append(f"{rank}W{m - rank}")
# -        first_left = max(0, num_microbatches - rank)
# +            if m >= num_ranks - 1 - rank:
# +                slots.append(f"{rank}W{m - num_ranks + 1 + rank}")
# +        first_left = max(0, num_microbatches - num_ranks + 1 + rank)

# %% four_ranks_only of="right_as_taught"
"""Wrong: the delay of four ranks, cut to fit."""

# -            if m >= rank:
# -                slots.append(f"{rank}W{m - rank}")
# -        first_left = max(0, num_microbatches - rank)
# +            if m >= min(rank, 3):
# +                slots.append(f"{rank}W{m - min(rank, 3)}")
# +        first_left = max(0, num_microbatches - min(rank, 3))

# %% full_backwards of="right_as_taught"
"""Wrong: 1F1B, in letters of full backwards."""

# -            slots.append(f"{rank}I{m}")
# -            if m >= rank:
# -                slots.append(f"{rank}W{m - rank}")
# -        first_left = max(0, num_microbatches - rank)
# +            slots.append(f"{rank}B{m}")
# +        first_left = num_microbatches

# %% loses_the_last_weights of="right_as_taught"
"""Wrong: the W that are left over are never done."""

# -        first_left = max(0, num_microbatches - rank)
# +        first_left = num_microbatches

# %% many_microbatches_only of="right_as_taught"
"""Wrong: with fewer microbatches than ranks, W of microbatches that there are not."""

# -        first_left = max(0, num_microbatches - rank)
# +        first_left = num_microbatches - rank

# %% no_cap_on_the_warm_up of="right_as_taught"
"""Wrong: the warm-up takes forwards that there are not."""

# -        warmup = min(num_ranks - 1 - rank, num_microbatches)
# +        warmup = num_ranks - 1 - rank

# %% warm_up_of_zb_h2 of="right_as_taught"
"""Wrong: warms up twice as long, which no memory of 1F1B holds."""

# -        warmup = min(num_ranks - 1 - rank, num_microbatches)
# +        warmup = min(2 * (num_ranks - 1 - rank), num_microbatches)

# %% weights_at_once of="right_as_taught"
"""Wrong: each W right behind its I, which is 1F1B again."""

# -            if m >= rank:
# -                slots.append(f"{rank}W{m - rank}")
# -        first_left = max(0, num_microbatches - rank)
# +            slots.append(f"{rank}W{m}")
# +        first_left = num_microbatches

# %% weights_at_the_end of="right_as_taught"
"""Wrong: all W at the end; quick, but every activation is held."""

# -            if m >= rank:
# +            if False:

# -        first_left = max(0, num_microbatches - rank)
# +        first_left = 0

# %% right_by_ticks
"""Different: passes have ticks of their own, and each rank sorts its passes by them."""


def zb_h1(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        ahead = num_ranks - 1 - rank
        timed = []
        for m in range(num_microbatches):
            timed.append((max(0, m - ahead), 0, m, f"{rank}F{m}"))
            timed.append((m, 1, m, f"{rank}I{m}"))
            timed.append((m + rank if m + rank < num_microbatches else num_microbatches, 2, m, f"{rank}W{m}"))
        schedule.append([text for *_, text in sorted(timed)])
    return schedule


# %% right_queues
"""Different: a queue of W and a helper that appends."""

from collections import deque


def zb_h1(num_ranks, num_microbatches):
    def lane(rank):
        forwards, waiting = iter(range(num_microbatches)), deque()

        def forward():
            m = next(forwards, None)
            return [] if m is None else [f"{rank}F{m}"]

        for _ in range(num_ranks - 1 - rank):
            yield from forward()
        for m in range(num_microbatches):
            yield from forward()
            yield f"{rank}I{m}"
            waiting.append(m)
            if len(waiting) > rank:
                yield f"{rank}W{waiting.popleft()}"
        yield from (f"{rank}W{m}" for m in waiting)

    return [list(lane(rank)) for rank in range(num_ranks)]
