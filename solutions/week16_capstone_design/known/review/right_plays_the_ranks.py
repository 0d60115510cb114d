"""Different: plays found code and change with lists for ranks, and compares with one process."""

import math


def norm(sinks, rest, split):
    total = 0.0
    for rank, own in enumerate(sinks):
        for name, square in (("sinks", own), ("rest", rest)):
            if name in split or rank == 0:
                total += square
    return math.sqrt(total)


def smoothed(parts, target, epsilon, size):
    every = [value for part in parts for value in part]
    share = epsilon * size / (size - 1)
    return (share - 1) * every[target] - share * math.fsum(every) / len(every)


def loss_after_the_average(sums, counts, change):
    ranks, whole = len(sums), sum(counts)
    each = [s / (whole if change in "cd" else count) for s, count in zip(sums, counts, strict=True)]
    return sum(each) * (ranks if change == "d" else 1) / ranks


def review(change, n):
    if change == "a":
        return [True, "tp", norm(n["sinks"], n["rest"], []) / norm(n["sinks"], n["rest"], ["sinks"])]
    if change == "b":
        marked = norm(n["sinks"], n["rest"], ["sinks", "rest"])
        return [False, "tp", marked / norm(n["sinks"], n["rest"], ["sinks"])]
    if change in ("c", "d"):
        one_process = sum(n["sums"]) / sum(n["counts"])
        wrong = loss_after_the_average(n["sums"], n["counts"], "c" if change == "c" else "found")
        return [change == "d", "cp", wrong / one_process]
    if change == "e":
        return [False, "ep", float(sum(n["counts"])) / n["counts"][n["rank"]]]
    if change == "f":
        given = n["logp"], n["target"], n["epsilon"]
        return [False, "tp", smoothed(*given, len(n["logp"][-1])) / smoothed(*given, sum(map(len, n["logp"])))]
    added = 0.0
    for total, count, shifted in zip(n["sums"], n["counts"], n["shifted"], strict=True):
        added += total / shifted * count if shifted else 0.0
    return [True, "cp", added / sum(n["counts"]) * sum(n["shifted"]) / sum(n["sums"])]
