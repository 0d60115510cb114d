"""The eight steps of one rank as words, without microbatch numbers, in the paper's order."""

from __future__ import annotations

from itertools import zip_longest
from random import Random

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, shown, trouble_in_call, value_of
from autograder.checks.schedules import BUILDERS

NAMES = ("to_end", "length", "num_microbatches")
WHY = (
    "how many hops are there from the near stage to the far stage of this rank, by way of the middle?",
    "how many hops are there from the far stage to the end and back, and how many forwards is that?",
    "by how much must near forwards lead far ones in step 4, and by how much do they lead after step 2?",
    "how many near forwards are left? On a middle rank, the first pair runs one after the other.",
    "how many far forwards are left?",
    "how many far backwards are left? An I is a backward; the second half of the words are I.",
    "how many near backwards are left? An I is a backward.",
    "how many I have no W yet?",
)


def steps_of(to_end: int, length: int, num_microbatches: int) -> list[list[str]]:
    """The words of each of the eight steps."""
    to_middle = length - 1 - to_end
    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end + 1)
    ends = ["Bf", "Bn"] * (to_end + 1)
    return [
        ["Fn"] * (2 * to_middle),
        ["Fn", "Ff"] * (to_end + 1),
        ["If", "W", "Ff"] * to_middle,
        main if to_middle else ["Fn", "Bf", *main[1:]],
        ["Bf", "Ff&Bn"] * to_middle,
        ends[: to_end + 1] + [word.replace("B", "I") for word in ends[to_end + 1 :]],
        ["W", "In"] * to_middle,
        ["W"] * (to_end + 1),
    ]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = value_of(reply)
    if not isinstance(received, list | tuple) or not all(isinstance(word, str) for word in received):
        return 'Return one list of words such as "Fn" or "Fn&Bf".'
    expected = [(number, word) for number, words in enumerate(task.expected[0], 1) for word in words]
    for place, (word, wanted) in enumerate(zip_longest(received, expected)):
        if wanted is None:
            return f"For ({shown(case)}): your first {len(expected)} words are right; no W is left for word {place}."
        if word != wanted[1]:
            what = f"{word[:10]!r}" if word else "missing"
            return (
                f"For ({shown(case)}): word {place} is {what}, which is wrong in step {wanted[0]}: {WHY[wanted[0] - 1]}"
            )
    return None


def _draw(rng: Random) -> list[Case]:
    """Every rank of half pipelines of one to five ranks, with the fewest possible microbatches, one more, and more."""
    places = [(to_end, length) for length in (1, 2, 3, 4, 5) for to_end in range(length)]
    more = (0, 1, rng.randint(2, 5))
    cases = [(to_end, length, 2 * length + extra) for to_end, length in places for extra in more]
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


CHECK = Check(
    exercise="week13.eight-steps",
    points=2,
    names=("eight_steps",),
    public=tuple(dict(zip(NAMES, case, strict=True)) for case in ((0, 2, 4), (1, 2, 4), (2, 4, 10))),
    draw=_draw,
    make=formula_task("eight_steps", NAMES, lambda case: steps_of(*(case[name] for name in NAMES))),
    judge=_judge,
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "Answer the question of each step for e = 0, L = 2, m = 4 on paper before you write code: which counts are the "
        "same for every m?",
        "Steps 1 to 3 repeat 2c, e + 1 and c times. For the others, write a function that counts how many of a letter "
        "your list has so far.",
        "left = m - sum(part in kinds for word in words for part in word.split('&')): step 4 repeats left of Fn, step "
        "5 of Ff, step 6 of Bf and If, step 7 of ____.",
    ),
)
