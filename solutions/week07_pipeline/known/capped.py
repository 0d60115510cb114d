# %% right_clock
"""Different: keeps the time of each pass by rank, letter and microbatch, and picks the one that begins first."""


def capped(num_ranks, num_microbatches, max_activations):
    slots, ends = [[] for _ in range(num_ranks)], {}
    free, forwards, backwards = [0] * num_ranks, [0] * num_ranks, [0] * num_ranks
    while min(backwards) < num_microbatches:
        found = []
        for r in range(num_ranks):
            f, b = forwards[r], backwards[r]
            if b < f and (r == num_ranks - 1 or (r + 1, "B", b) in ends):
                found.append((max(free[r], ends.get((r + 1, "B", b), 0)), "B", r, b))
            if f < num_microbatches and f - b < max_activations and (r == 0 or (r - 1, "F", f) in ends):
                found.append((max(free[r], ends.get((r - 1, "F", f), 0)), "F", r, f))
        start, kind, r, m = min(found)
        ends[r, kind, m] = free[r] = start + (1 if kind == "F" else 2)
        forwards[r] += kind == "F"
        backwards[r] += kind == "B"
        slots[r].append(f"{r}{kind}{m}")
    return slots


# %% cap_off_by_one of="right_clock"
"""Wrong: one activation more than is allowed."""

# -            if f < num_microbatches and f - b < max_activations and (r == 0 or (r - 1, "F", f) in ends):
# +            if f < num_microbatches and f - b < max_activations + 1 and (r == 0 or (r - 1, "F", f) in ends):

# %% forwards_first of="right_clock"
"""Wrong: the same clock, but a forward goes before a backward that is ready at the same time."""

# -        start, kind, r, m = min(found)
# +        start, kind, r, m = min(found, key=lambda each: (each[0], each[1] == "B"))

# %% two_ranks_worth of="right_clock"
"""Wrong: never holds more than 2, also where more is allowed."""

# -            if f < num_microbatches and f - b < max_activations and (r == 0 or (r - 1, "F", f) in ends):
# +            if f < num_microbatches and f - b < min(max_activations, 2) and (r == 0 or (r - 1, "F", f) in ends):

# %% right_events
"""Different: a heap of events, each rank chooses when something has arrived."""

import heapq


def capped(num_ranks, num_microbatches, max_activations):
    schedule = [[] for _ in range(num_ranks)]
    waiting = [{"F": [], "B": []} for _ in range(num_ranks)]
    held, busy_until = [0] * num_ranks, [0] * num_ranks
    waiting[0]["F"] = list(range(num_microbatches))
    events = [(0, rank, "", 0) for rank in range(num_ranks)]
    while events:
        now = events[0][0]
        ranks = set()
        while events and events[0][0] == now:  # all that arrives at one time, before anybody chooses
            _, rank, kind, microbatch = heapq.heappop(events)
            ranks.add(rank)
            if kind:
                waiting[rank][kind].append(microbatch)
        for rank in sorted(ranks):
            if busy_until[rank] > now:
                continue
            if waiting[rank]["B"]:
                kind, seconds = "B", 2
            elif waiting[rank]["F"] and held[rank] < max_activations:
                kind, seconds = "F", 1
            else:
                continue
            microbatch = waiting[rank][kind].pop(0)
            held[rank] += 1 if kind == "F" else -1
            busy_until[rank] = now + seconds
            schedule[rank].append(f"{rank}{kind}{microbatch}")
            heapq.heappush(events, (now + seconds, rank, "", 0))
            if kind == "F" and rank == num_ranks - 1:
                heapq.heappush(events, (now + seconds, rank, "B", microbatch))
            elif kind == "F":
                heapq.heappush(events, (now + seconds, rank + 1, "F", microbatch))
            elif rank > 0:
                heapq.heappush(events, (now + seconds, rank - 1, "B", microbatch))
    return schedule


# %% right_tick_by_tick
"""Different: walks through time one unit after the other."""


def capped(num_ranks, num_microbatches, max_activations):
    schedule, done = [[] for _ in range(num_ranks)], {}
    free, counts = [0] * num_ranks, [[0, 0] for _ in range(num_ranks)]
    now = 0
    while any(backwards < num_microbatches for _, backwards in counts):
        for rank, (forwards, backwards) in enumerate(counts):
            if free[rank] > now:
                continue
            behind, before = f"{rank + 1}B{backwards}", f"{rank - 1}F{forwards}"
            is_ready = rank == num_ranks - 1 or done.get(behind, now + 1) <= now
            has_input = rank == 0 or done.get(before, now + 1) <= now
            if backwards < forwards and is_ready:
                text, seconds, place = f"{rank}B{backwards}", 2, 1
            elif forwards < num_microbatches and forwards - backwards < max_activations and has_input:
                text, seconds, place = f"{rank}F{forwards}", 1, 0
            else:
                continue
            counts[rank][place] += 1
            done[text] = free[rank] = now + seconds
            schedule[rank].append(text)
        now += 1
    return schedule


# %% no_cap
"""Wrong: plain 1F1B, as quick as can be and above the cap."""


def capped(num_ranks, num_microbatches, max_activations):
    schedule = []
    for rank in range(num_ranks):
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
        warm = min(num_ranks - 1 - rank, num_microbatches)
        steady = [slot for pair in zip(forwards[warm:], backwards, strict=False) for slot in pair]
        schedule.append(forwards[:warm] + steady + backwards[num_microbatches - warm :])
    return schedule


# %% caps_the_first_rank_only of="no_cap"
"""Wrong: rank 0 obeys the cap, the others warm up as in 1F1B, and wait for forwards that cannot come."""

#          warm = min(num_ranks - 1 - rank, num_microbatches)
# +        if rank == 0:
# +            warm = min(warm, max_activations - 1)

# %% short_warm_up of="no_cap"
"""Wrong: 1F1B with a shorter warm-up, under the cap and legal, but ranks wait for forwards with a backward at hand."""

# -        warm = min(num_ranks - 1 - rank, num_microbatches)
# +        warm = min(num_ranks - 1 - rank, max_activations - 1, num_microbatches)

# %% one_at_a_time
"""Wrong: holds one activation whatever is allowed."""


def capped(num_ranks, num_microbatches, max_activations):
    return [[f"{rank}{kind}{m}" for m in range(num_microbatches) for kind in "FB"] for rank in range(num_ranks)]


# %% gpipe_in_rounds of="one_at_a_time"
"""Wrong: rounds of GPipe with a flush after each, under the cap and slow."""

# -    return [[f"{rank}{kind}{m}" for m in range(num_microbatches) for kind in "FB"] for rank in range(num_ranks)]
# +    rounds = [
# +        range(begin, min(begin + max_activations, num_microbatches))
# +        for begin in range(0, num_microbatches, max_activations)
# +    ]
# +    return [[f"{rank}{kind}{m}" for part in rounds for kind in "FB" for m in part] for rank in range(num_ranks)]
