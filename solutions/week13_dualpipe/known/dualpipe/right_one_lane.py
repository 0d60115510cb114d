"""Different: one function with counters for both, no words; the other stream gets the low numbers."""


def dualpipe(num_ranks, num_microbatches):
    half, ranks = num_microbatches // 2, []
    for rank in range(num_ranks):
        e = min(rank, num_ranks - 1 - rank)
        near, far = half if rank == e else 0, 0 if rank == e else half
        ranks.append(lane({e: near, num_ranks - 1 - e: far}, e, num_ranks // 2, half))
    return ranks


def dualpipe_v(num_ranks, num_microbatches):
    homes = [{rank: 0, 2 * num_ranks - 1 - rank: 0} for rank in range(num_ranks)]
    return [lane(home, rank, num_ranks, num_microbatches) for rank, home in enumerate(homes)]


def lane(offset, e, length, num):
    (near, far), c = offset, length - 1 - e
    count, waiting, slots = {}, [], []

    def one(letter, stage):
        key = (letter == "F", stage)
        m = offset[stage] + count.get(key, 0)
        count[key] = count.get(key, 0) + 1
        if letter == "I":
            waiting.append(f"{stage}W{m}")
        return f"{stage}{letter}{m}"

    def add(*passes):
        slots.extend(waiting.pop(0) if p == "W" else one(*p) for p in passes)

    def pair(front, back):
        forward, backward = one("F", front), one("B", back)
        slots.append(f"({forward};{backward})OVERLAP_F_B")

    for _ in range(2 * c):
        add(("F", near))
    for _ in range(e + 1):
        add(("F", near), ("F", far))
    for _ in range(c):
        add(("I", far), "W", ("F", far))
    for turn in range(num - 2 * length + e + 1):
        if turn == 0 and c == 0:
            add(("F", near), ("B", far))
        else:
            pair(near, far)
        pair(far, near)
    for _ in range(c):
        add(("B", far))
        pair(far, near)
    for place in range(2 * e + 2):
        add(("I" if place > e else "B", (far, near)[place % 2]))
    for _ in range(c):
        add("W", ("I", near))
    while waiting:
        add("W")
    return slots
