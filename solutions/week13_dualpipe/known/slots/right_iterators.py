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
