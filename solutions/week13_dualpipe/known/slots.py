# %% right_as_taught from="page"
"""Different: as the page solves it."""

from collections import deque

# %% backward_of_the_pair_first of="right_as_taught"
"""Wrong: counts a pair's backward before its forward, and writes it there."""

# -    parts = [[text(part) for part in word.split("&")] for word in words]
# +    parts = [[text(part) for part in reversed(word.split("&"))] for word in words]

# %% backwards_count_forwards of="right_as_taught"
"""Wrong: forward and backward share one counter."""

# -        microbatch = left[word.replace("I", "B")].popleft()
# +        microbatch = left["F" + end].popleft()

# %% newest_weight_first of="right_as_taught"
"""Wrong: a W belongs to the newest I."""

# -            return waiting.popleft()
# +            return waiting.pop()

# %% numbers_from_zero of="right_as_taught"
"""Wrong: counts from 0 whatever the streams say."""

# -    left = {letter + end: deque(streams[end]) for letter in "FB" for end in "nf"}
# +    left = {letter + end: deque(range(len(streams[end]))) for letter in "FB" for end in "nf"}

# %% one_stream of="right_as_taught"
"""Wrong: both streams take the near numbers."""

# -    left = {letter + end: deque(streams[end]) for letter in "FB" for end in "nf"}
# +    left = {letter + end: deque(streams["n"]) for letter in "FB" for end in "nf"}

# %% pair_the_wrong_way of="right_as_taught"
"""Wrong: writes the backward of a pair first."""

# -    return [each[0] if len(each) == 1 else f"({each[0]};{each[1]})OVERLAP_F_B" for each in parts]
# +    return [each[0] if len(each) == 1 else f"({each[1]};{each[0]})OVERLAP_F_B" for each in parts]

# %% pairs_apart of="right_as_taught"
"""Wrong: a pair becomes two slots."""

# -    return [each[0] if len(each) == 1 else f"({each[0]};{each[1]})OVERLAP_F_B" for each in parts]
# +    return [text for each in parts for text in each]

# %% streams_by_letter of="right_as_taught"
"""Wrong: an I and a B have a counter each."""

# -    left = {letter + end: deque(streams[end]) for letter in "FB" for end in "nf"}
# +    left = {letter + end: deque(streams[end]) for letter in "FIB" for end in "nf"}

# -        microbatch = left[word.replace("I", "B")].popleft()
# +        microbatch = left[word].popleft()

# %% weight_in_the_near_stage of="right_as_taught"
"""Wrong: every W in the near stage."""

# -            waiting.append(f"{stages[end]}W{microbatch}")
# +            waiting.append(f"{stages['n']}W{microbatch}")

# %% weight_of_the_first of="right_as_taught"
"""Wrong: every W belongs to microbatch 0."""

# -            waiting.append(f"{stages[end]}W{microbatch}")
# +            waiting.append(f"{stages[end]}W0")

# %% right_counters
"""Different: counts, indexes, and a list of the I."""


def slots_of(words, stages, streams):
    count, owed, texts = {}, [], []
    for word in words:
        slot = []
        for part in word.split("&"):
            if part == "W":
                stage, m = owed.pop(0)
                slot.append(f"{stage}W{m}")
                continue
            key = (part[0] == "F", part[1])
            count[key] = count.get(key, -1) + 1
            stage, m = stages[part[1]], streams[part[1]][count[key]]
            owed += [(stage, m)] if part[0] == "I" else []
            slot.append(f"{stage}{part[0]}{m}")
        texts.append("".join(slot) if len(slot) < 2 else "(" + ";".join(slot) + ")OVERLAP_F_B")
    return tuple(texts)


# %% right_iterators
"""Different: iterators, one for I and B of a stream."""

from collections import deque


def slots_of(words, stages, streams):
    left = {letter + end: iter(streams[end]) for letter in "FB" for end in "nf"}
    left |= {"I" + end: left["B" + end] for end in "nf"}
    waiting = deque()

    def text(word):
        if word == "W":
            return waiting.popleft()
        letter, end = word
        microbatch = next(left[word])
        if letter == "I":
            waiting.append(f"{stages[end]}W{microbatch}")
        return f"{stages[end]}{letter}{microbatch}"

    parts = [[text(part) for part in word.split("&")] for word in words]
    return [each[0] if len(each) == 1 else f"({each[0]};{each[1]})OVERLAP_F_B" for each in parts]
