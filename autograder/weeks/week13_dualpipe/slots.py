"""From words to the strings of one rank: the microbatch of each word."""

from __future__ import annotations

from collections import deque
from itertools import zip_longest
from random import Random

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of
from autograder.checks.schedules import BUILDERS
from autograder.weeks.week13_dualpipe.eight_steps import steps_of


def numbered(words: list[str], stages: dict[str, int], streams: dict[str, list[int]]) -> list[str]:
    """Each word takes the next microbatch of its stream; a W belongs to the oldest I without one."""
    left = {letter + end: deque(numbers) for end, numbers in streams.items() for letter in "FB"}
    waiting: deque[str] = deque()

    def text(word: str) -> str:
        if word == "W":
            return waiting.popleft()
        letter, end = word
        microbatch = left[word.replace("I", "B")].popleft()
        if letter == "I":
            waiting.append(f"{stages[end]}W{microbatch}")
        return f"{stages[end]}{letter}{microbatch}"

    pairs = [[text(part) for part in word.split("&")] for word in words]
    return [pair[0] if len(pair) == 1 else f"({pair[0]};{pair[1]})OVERLAP_F_B" for pair in pairs]


def _make(case: Case, rng: Random) -> Task:
    given = [case["words"], case["stages"], case["streams"]]
    return Task(call="slots_of", ranks=1, inputs=[[given]], expected=[numbered(*given)], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = value_of(reply)
    if not isinstance(received, list | tuple) or not all(isinstance(text, str) for text in received):
        return 'Return one list of strings such as "1F3".'
    for word, text, expected in zip_longest(case["words"], received, task.expected[0]):
        if text != expected:
            place = f"word {word!r}" if word else "the entry after the last word"
            what = "nothing" if text is None else f"{text[:30]!r}"
            return f"With stages {case['stages']}, {place} becomes {what}: check its stage, letter and microbatch."
    return None


def _draw(rng: Random) -> list[Case]:
    cases = []
    for to_end, length in ((0, 2), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4)):
        num = 2 * length + rng.randint(0, 3)
        words = [word for step in steps_of(to_end, length, num) for word in step]
        low, high = list(range(num)), list(range(num, 2 * num))
        cases.append(_case(words, to_end, 2 * length - 1 - to_end, high, low))
        cases.append(_case(words, to_end, 2 * length - 1 - to_end, low, low))
    return cases


def _case(words: list[str], near: int, far: int, near_stream: list[int], far_stream: list[int]) -> Case:
    return {"words": words, "stages": {"n": near, "f": far}, "streams": {"n": near_stream, "f": far_stream}}


CHECK = Check(
    exercise="week13.slots",
    points=2,
    names=("slots_of",),
    public=(_case(["Fn", "Ff", "If", "Fn&Bf", "In", "W", "W"], 0, 3, [0, 1], [4, 5]),),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "Use four counters, for the next forward and the next backward of near and of far, and a queue of Ws.",
        "I and B are both backwards: they share a counter. An I puts its W into the queue, with its stage.",
        'A pair is word.split("&"): two strings, an F and a B, each counted, in "(...;...)OVERLAP_F_B".',
    ),
)
