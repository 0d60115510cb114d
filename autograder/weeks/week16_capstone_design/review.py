"""The hunt: accept or reject seven changes, each with its axis and a symptom; one part per bug."""

from __future__ import annotations

from math import log, sqrt
from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call

Sizes = dict[str, Any]
VERDICTS = {  # (accept?, axis)
    "a": (True, "tp"),
    "b": (False, "tp"),
    "c": (False, "cp"),
    "d": (True, "cp"),
    "e": (False, "ep"),
    "f": (False, "tp"),
    "g": (True, "cp"),
}
BUGS = {"a": "norm", "b": "norm", "c": "mean", "d": "mean", "e": "count", "f": "labels", "g": "word after next"}
AXES = ("dp", "tp", "pp", "cp", "ep")
LEAST_OFF = 0.002


def symptom(change: str, n: Sizes) -> float:
    """The wrong code's result divided by one process's. If the change is right, the found code is wrong."""
    if change in "ab":
        right = sqrt(n["rest"] + sum(n["sinks"]))
        wrong = n["rest"] + n["sinks"][0] if change == "a" else len(n["sinks"]) * n["rest"] + sum(n["sinks"])
        return sqrt(wrong) / right
    if change == "c":
        return 1 / len(n["counts"])
    if change == "d":
        means = [total / count for total, count in zip(n["sums"], n["counts"], strict=True)]
        return sum(means) / len(means) / (sum(n["sums"]) / sum(n["counts"]))
    if change == "e":
        return sum(n["counts"]) / n["counts"][n["rank"]]
    if change == "f":
        return smoothed(n, len(n["logp"][0])) / smoothed(n, sum(map(len, n["logp"])))
    shared = zip(n["sums"], n["counts"], n["shifted"], strict=True)
    found = sum(total * count / max(1, shifted) for total, count, shifted in shared)
    return found / sum(n["counts"]) / (sum(n["sums"]) / sum(n["shifted"]))


def smoothed(n: Sizes, size: int) -> float:
    """A smoothed loss from all log-probabilities, with the coefficient for a vocabulary of `size` words."""
    everything = [value for part in n["logp"] for value in part]
    share = n["epsilon"] * size / (size - 1)
    return -(1 - share) * everything[n["target"]] - share * sum(everything) / len(everything)


def _make(case: Case, rng: Random) -> Task:
    change, n = case["change"], {name: value for name, value in case.items() if name not in ("change", "part")}
    expected = [*VERDICTS[change], symptom(change, n)]
    return Task(call="review", ranks=1, inputs=[[[change, n]]], expected=[expected], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, (accept, axis, number) = numbers_of(reply), task.expected[0]
    if not isinstance(received, list | tuple) or len(received) != 3 or type(received[0]) is not bool:
        return "review must return three values: True to accept or False to reject, an axis, a number."
    if received[1] not in AXES:
        return f"{received[1]!r} is not an axis: use one of {', '.join(AXES)}."
    where = ", ".join(f"{name}={value}" for name, value in case.items() if name not in ("change", "part"))
    if received[0] is not accept or received[1] != axis or not close(received[2], number, 1e-4):
        return (
            f"Change {case['change']} is not reviewed correctly yet: you returned {tuple(received)}, and verdict, axis "
            f"or symptom is wrong. Work out by hand what one process gives. Numbers: {where}."
        )
    return None


def drawn(rng: Random, ranks: int) -> list[Case]:
    """Every change on `ranks` ranks, with numbers whose symptom is not 1, so that guessing 1 fails."""
    cases = []
    for change in VERDICTS:
        n = numbers(change, rng, ranks)
        while abs(symptom(change, n) - 1) < LEAST_OFF:
            n = numbers(change, rng, ranks)
        cases.append({"change": change, "part": BUGS[change]} | n)
    return cases


def numbers(change: str, rng: Random, ranks: int) -> Sizes:
    """Different counts, one rank without targets, and parts of equal length."""
    if change in "ab":
        return {"sinks": [rng.randint(1, 90) / 10 for _ in range(ranks)], "rest": rng.randint(10, 90) / 10}
    if change == "f":
        logp = _log_probabilities(rng, ranks, rng.choice([3, 4, 8]))
        target = rng.randrange(ranks * len(logp[0]))
        return {"logp": logp, "target": target, "epsilon": rng.choice([0.05, 0.1, 0.2])}
    counts = rng.sample(range(2, 40), ranks)
    if change == "e":
        return {"counts": counts, "rank": rng.randrange(ranks)}
    sums = [round(rng.uniform(1, 3) * count, 2) for count in counts]
    if change in "cd":
        return {"sums": sums, "counts": counts}
    shifted, nothing = [count - 1 for count in counts], rng.randrange(ranks)
    counts[nothing], shifted[nothing], sums[nothing] = 0, 1, 2.5  # the shift gives it its only target
    return {"sums": sums, "counts": counts, "shifted": shifted}


def _log_probabilities(rng: Random, ranks: int, each: int) -> list[list[float]]:
    weights = [[rng.randint(1, 20) for _ in range(each)] for _ in range(ranks)]
    total = sum(map(sum, weights))
    return [[round(log(weight / total), 4) for weight in part] for part in weights]


def _draw(rng: Random) -> list[Case]:
    return [case for ranks in (2, rng.choice([3, 5, 6]), rng.choice([4, 8])) for case in drawn(rng, ranks)]


CHECK = Check(
    exercise="week16.review",
    points=3,
    names=("review",),
    public=tuple(case for ranks in (2, 3) for case in drawn(Random(16 + ranks), ranks)),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    optional=True,
    parts=dict.fromkeys(BUGS.values(), 0.2),
    hints=(
        "For each change, write down what one process would give, without any ranks. Then compare.",
        "Two questions find most of them: is a number counted twice or not at all, and is it divided a second time? "
        "For e: does .contiguous() copy a contiguous tensor?",
        "If you accept a change: before / right. If you reject it: after / right. For c the count is whole, but the "
        "gradient is still averaged over ____ ranks.",
    ),
)
