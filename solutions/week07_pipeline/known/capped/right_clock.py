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
