# %% right_one_lane
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


# %% right_overlaps_the_first_pair
"""Different: overlaps the middle rank's first pair too: as quick at balance, quicker when a pair saves time."""

from collections import deque


def eight_steps(to_end, length, num_microbatches):
    to_middle = length - 1 - to_end
    words = ["Fn"] * (2 * to_middle)
    words += ["Fn", "Ff"] * (to_end + 1)
    words += ["If", "W", "Ff"] * to_middle
    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end + 1)
    words += main
    words += ["Bf", "Ff&Bn"] * to_middle
    ends = ["Bf", "Bn"] * (to_end + 1)
    words += [word if place <= to_end else word.replace("B", "I") for place, word in enumerate(ends)]
    words += ["W", "In"] * to_middle
    return words + ["W"] * (to_end + 1)


def slots_of(words, stages, streams):
    left = {letter + end: deque(streams[end]) for letter in "FB" for end in "nf"}
    waiting = deque()

    def text(word):
        if word == "W":
            return waiting.popleft()
        letter, end = word
        microbatch = left[word.replace("I", "B")].popleft()
        if letter == "I":
            waiting.append(f"{stages[end]}W{microbatch}")
        return f"{stages[end]}{letter}{microbatch}"

    parts = [[text(part) for part in word.split("&")] for word in words]
    return [each[0] if len(each) == 1 else f"({each[0]};{each[1]})OVERLAP_F_B" for each in parts]


def dualpipe(num_ranks, num_microbatches):
    half, ranks = num_microbatches // 2, []
    halves = range(half), range(half, num_microbatches)
    for rank in range(num_ranks):
        near = min(rank, num_ranks - 1 - rank)
        streams = dict(zip("nf" if rank == near else "fn", halves, strict=True))
        words = eight_steps(near, num_ranks // 2, half)
        ranks.append(slots_of(words, {"n": near, "f": num_ranks - 1 - near}, streams))
    return ranks


def dualpipe_v(num_ranks, num_microbatches):
    ranks, streams = [], dict.fromkeys("nf", range(num_microbatches))
    for rank in range(num_ranks):
        words = eight_steps(rank, num_ranks, num_microbatches)
        ranks.append(slots_of(words, {"n": rank, "f": 2 * num_ranks - 1 - rank}, streams))
    return ranks


# %% backwards_count_forwards of="right_overlaps_the_first_pair"
"""Wrong: forward and backward share one counter."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -        microbatch = left[word.replace("I", "B")].popleft()
# +        microbatch = left["F" + end].popleft()

# %% far_is_near of="right_overlaps_the_first_pair"
"""Wrong: the far stage of another rank."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -        ranks.append(slots_of(words, {"n": near, "f": num_ranks - 1 - near}, streams))
# +        ranks.append(slots_of(words, {"n": near, "f": num_ranks - near - 2}, streams))

# %% half_the_microbatches of="right_overlaps_the_first_pair"
"""Wrong: half of the microbatches in the V, as in one direction of DualPipe."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -        words = eight_steps(rank, num_ranks, num_microbatches)
# +        words = eight_steps(rank, num_ranks, num_microbatches // 2)

# %% loop_for_a_v of="right_overlaps_the_first_pair"
"""Wrong: a loop, stage P + r instead of the way back."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -        ranks.append(slots_of(words, {"n": rank, "f": 2 * num_ranks - 1 - rank}, streams))
# +        ranks.append(slots_of(words, {"n": rank, "f": num_ranks + rank}, streams))

# %% never_overlaps of="right_overlaps_the_first_pair"
"""Wrong: runs every F and B one by one."""

# -    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end + 1)
# -    words += main
# +    main = ["Fn", "Bf", "Ff", "Bn"] * (num_microbatches - 2 * length + to_end + 1)
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# %% no_zero_bubble_at_the_end of="right_overlaps_the_first_pair"
"""Wrong: step 6 has full backwards only."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -    words += [word if place <= to_end else word.replace("B", "I") for place, word in enumerate(ends)]
# -    words += ["W", "In"] * to_middle
# -    return words + ["W"] * (to_end + 1)
# +    words += ends
# +    return words + ["Bn"] * to_middle

# %% one_direction of="right_overlaps_the_first_pair"
"""Wrong: 1F1B for both, all microbatches from rank 0."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -def dualpipe(num_ranks, num_microbatches):
# +def two_directions(num_ranks, num_microbatches):

# +
# +def dualpipe(num_ranks, num_microbatches):
# +    ranks = []
# +    for rank in range(num_ranks):
# +        ahead = min(num_ranks - 1 - rank, num_microbatches)
# +        slots = [f"{rank}F{m}" for m in range(ahead)]
# +        for m in range(num_microbatches):
# +            if m + ahead < num_microbatches:
# +                slots.append(f"{rank}F{m + ahead}")
# +            slots.append(f"{rank}B{m}")
# +        ranks.append(slots)
# +    return ranks
# +
#
#  def dualpipe_v(num_ranks, num_microbatches):

# %% pair_the_wrong_way of="right_overlaps_the_first_pair"
"""Wrong: writes the backward of a pair first."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -    return [each[0] if len(each) == 1 else f"({each[0]};{each[1]})OVERLAP_F_B" for each in parts]
# +    return [each[0] if len(each) == 1 else f"({each[1]};{each[0]})OVERLAP_F_B" for each in parts]

# %% stages_swapped of="right_overlaps_the_first_pair"
"""Wrong: the near stream in the stage of the far one."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -        ranks.append(slots_of(words, {"n": rank, "f": 2 * num_ranks - 1 - rank}, streams))
# +        ranks.append(slots_of(words, {"f": rank, "n": 2 * num_ranks - 1 - rank}, streams))

# %% streams_not_mirrored of="right_overlaps_the_first_pair"
"""Wrong: the second half of the ranks has the streams of the first."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -        streams = dict(zip("nf" if rank == near else "fn", halves, strict=True))
# +        streams = dict(zip("nf", halves, strict=True))

# %% streams_swapped of="right_overlaps_the_first_pair"
"""Wrong: near for far in the steady state."""

# -    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end + 1)
# -    words += main
# +    main = ["Ff&Bn", "Fn&Bf"] * (num_microbatches - 2 * length + to_end + 1)
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# %% two_directions_in_the_v of="right_overlaps_the_first_pair"
"""Wrong: the far stream of the V has numbers of its own."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -    ranks, streams = [], dict.fromkeys("nf", range(num_microbatches))
# +    ranks, streams = [], {"n": range(num_microbatches), "f": range(num_microbatches, 2 * num_microbatches)}

# %% upside_down of="right_overlaps_the_first_pair"
"""Wrong: counts the hops of the V from its turn."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -        words = eight_steps(rank, num_ranks, num_microbatches)
# +        words = eight_steps(num_ranks - 1 - rank, num_ranks, num_microbatches)

# %% warm_up_too_short of="right_overlaps_the_first_pair"
"""Wrong: step 1 fills the way to the middle, not back."""

# -    words = ["Fn"] * (2 * to_middle)
# +    words = ["Fn"] * to_middle

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# %% weight_of_the_first of="right_overlaps_the_first_pair"
"""Wrong: every W belongs to microbatch 0."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -            waiting.append(f"{stages[end]}W{microbatch}")
# +            waiting.append(f"{stages[end]}W0")

# %% whole_length of="right_overlaps_the_first_pair"
"""Wrong: DualPipe's half pipeline as long as the whole."""

# -    words += main
# +    words += main if to_middle else ["Fn", "Bf", *main[1:]]

# -        words = eight_steps(near, num_ranks // 2, half)
# +        words = eight_steps(near, num_ranks, half)
