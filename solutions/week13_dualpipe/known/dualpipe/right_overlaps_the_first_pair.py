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
