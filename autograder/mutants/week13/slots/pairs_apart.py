"""Wrong: a pair becomes two slots."""

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
    return [text for each in parts for text in each]
