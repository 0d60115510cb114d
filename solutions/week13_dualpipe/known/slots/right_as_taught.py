"""Different: as the page solves it."""

from collections import deque


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
