# %% right_by_index
"""Different: works out stage and microbatch of the k-th forward by division, in one loop."""


def interleaved(num_ranks, num_microbatches, num_chunks):
    def slot(letter, rank, count):
        group, inside = divmod(count, num_ranks * num_chunks)
        chunk, microbatch = divmod(inside, num_ranks)
        if letter == "B":
            chunk = num_chunks - 1 - chunk
        return f"{rank + chunk * num_ranks}{letter}{group * num_ranks + microbatch}"

    total = num_microbatches * num_chunks
    schedule = [[] for _ in range(num_ranks)]
    for rank, slots in enumerate(schedule):
        ahead = min(total, (num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank))
        for count in range(total + ahead):
            if count < total:
                slots.append(slot("F", rank, count))
            if count >= ahead:
                slots.append(slot("B", rank, count - ahead))
    return schedule


# %% right_queues
"""Different: pops from two queues, and returns tuples of texts."""

from collections import deque


def interleaved(num_ranks, num_microbatches, num_chunks):
    ranks = []
    for rank in range(num_ranks):
        forwards, backwards = deque(), deque()
        for first in range(0, num_microbatches, num_ranks):
            for chunk in range(num_chunks):
                for m in range(first, first + num_ranks):
                    forwards.append(f"{rank + chunk * num_ranks}F{m}")
                    backwards.append(f"{rank + (num_chunks - 1 - chunk) * num_ranks}B{m}")
        slots = []
        for _ in range((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank)):
            if forwards:
                slots.append(forwards.popleft())
        while backwards:
            if forwards:
                slots.append(forwards.popleft())
            slots.append(backwards.popleft())
        ranks.append(tuple(slots))
    return tuple(ranks)


# %% right_shorter_warm_up
"""Different: warms up one hop a rank; as quick where messages are free, and holds less."""


def interleaved(num_ranks, num_microbatches, num_chunks):
    rounds = [range(first, first + num_ranks) for first in range(0, num_microbatches, num_ranks)]
    schedule = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * num_chunks, num_ranks)
        forwards = [f"{stage}F{m}" for part in rounds for stage in stages for m in part]
        backwards = [f"{stage}B{m}" for part in rounds for stage in reversed(stages) for m in part]
        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
        pairs = zip(forwards[warmup:], backwards, strict=False)
        steady = [slot for pair in pairs for slot in pair]
        schedule.append(forwards[:warmup] + steady + backwards[len(forwards) - warmup :])
    return schedule


# %% all_forwards_first of="right_shorter_warm_up"
"""Wrong: all forwards, then all backwards, which holds every activation."""

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = len(forwards)

# %% backward_first_chunk_first of="right_shorter_warm_up"
"""Wrong: the backward begins with the first chunk, whose gradient is not there."""

# -        backwards = [f"{stage}B{m}" for part in rounds for stage in reversed(stages) for m in part]
# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        backwards = [f"{stage}B{m}" for part in rounds for stage in stages for m in part]
# +        warmup = min((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank), len(forwards))

# %% chunk_after_chunk of="right_shorter_warm_up"
"""Wrong: all microbatches through the first chunk before the second begins."""

# -    rounds = [range(first, first + num_ranks) for first in range(0, num_microbatches, num_ranks)]
# +    rounds = [range(num_microbatches)]

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = min((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank), len(forwards))

# %% halves_for_texts of="right_shorter_warm_up"
"""Wrong: returns tuples instead of texts."""

# -        forwards = [f"{stage}F{m}" for part in rounds for stage in stages for m in part]
# +        forwards = [(stage, "F", m) for part in rounds for stage in stages for m in part]

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = min((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank), len(forwards))

# %% leaves_a_backward_out of="right_shorter_warm_up"
"""Wrong: the cooldown is one backward short."""

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = min((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank), len(forwards))

# -        schedule.append(forwards[:warmup] + steady + backwards[len(forwards) - warmup :])
# +        schedule.append(forwards[:warmup] + steady + backwards[len(forwards) - warmup + 1 :])

# %% neighbouring_stages of="right_shorter_warm_up"
"""Wrong: rank r holds the stages next to each other, as without interleaving."""

# -        stages = range(rank, num_ranks * num_chunks, num_ranks)
# +        stages = range(rank * num_chunks, (rank + 1) * num_chunks)

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = min((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank), len(forwards))

# %% two_chunks_only of="right_shorter_warm_up"
"""Wrong: right for two chunks, whatever was asked for."""

#  def interleaved(num_ranks, num_microbatches, num_chunks):
# +    num_chunks = 2

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = min((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank), len(forwards))

# %% warm_up_of_1f1b of="right_shorter_warm_up"
"""Wrong: warms up as 1F1B does, too short to come back in time."""

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = min(num_ranks - 1 - rank, len(forwards))

# %% warm_up_too_long of="right_shorter_warm_up"
"""Wrong: warms up twice as long as needed; as quick, but holds more."""

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = min((num_chunks - 1) * num_ranks + 2 * num_ranks, len(forwards))

# %% without_cap of="right_shorter_warm_up"
"""Wrong: few microbatches run out of forwards, and the warm-up does not notice."""

# -        warmup = min((num_chunks - 1) * num_ranks + (num_ranks - 1 - rank), len(forwards))
# +        warmup = (num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank)
