# %% right_as_taught from="page"
"""Different: as the page solves it."""

import torch

# %% accepts_everything of="right_as_taught"
"""Wrong: trusts everybody."""

# -        return change == "a", "tp", (wrong / whole) ** 0.5
# +        return True, "tp", (wrong / whole) ** 0.5

# -        return False, "tp", (losses[0] / losses[1]).item()
# +        return True, "tp", (losses[0] / losses[1]).item()

# -        return False, "ep", sum(counts) / counts[n["rank"]]
# +        return True, "ep", sum(counts) / counts[n["rank"]]

# -        return False, "cp", 1 / len(counts)
# +        return True, "cp", 1 / len(counts)

# %% refuses_everything of="right_as_taught"
"""Wrong: trusts nobody."""

# -        return change == "a", "tp", (wrong / whole) ** 0.5
# +        return False, "tp", (wrong / whole) ** 0.5

# -        return True, "cp", local / (sum(n["sums"]) / sum(counts))
# +        return False, "cp", local / (sum(n["sums"]) / sum(counts))

# -    return True, "cp", found / (sum(n["sums"]) / sum(n["shifted"]))
# +    return False, "cp", found / (sum(n["sums"]) / sum(n["shifted"]))

# %% guesses of="right_as_taught"
"""Wrong: verdicts and axes right, every symptom 1."""

# -        return change == "a", "tp", (wrong / whole) ** 0.5
# +        return change == "a", "tp", 1.0

# -        return False, "tp", (losses[0] / losses[1]).item()
# +        return False, "tp", 1.0

# -        return False, "ep", sum(counts) / counts[n["rank"]]
# +        return False, "ep", 1.0

# -        return False, "cp", 1 / len(counts)
# +        return False, "cp", 1.0

# -        return True, "cp", local / (sum(n["sums"]) / sum(counts))
# +        return True, "cp", 1.0

# -    return True, "cp", found / (sum(n["sums"]) / sum(n["shifted"]))
# +    return True, "cp", 1.0

# %% contiguous_copies of="right_as_taught"
"""Wrong: accepts e: takes .contiguous() for a copy."""

# -        return False, "ep", sum(counts) / counts[n["rank"]]
# +        return True, "ep", sum(counts) / counts[n["rank"]]

# %% half_a_fix_is_one of="right_as_taught"
"""Wrong: accepts c: the count is whole now."""

# -        return False, "cp", 1 / len(counts)
# +        return True, "cp", 1 / len(counts)

# %% all_means_are_right of="right_as_taught"
"""Wrong: accepts f: the mean is whole now."""

# -        return False, "tp", (losses[0] / losses[1]).item()
# +        return True, "tp", (losses[0] / losses[1]).item()

# %% marks_everything of="right_as_taught"
"""Wrong: accepts b, refuses a."""

# -        return change == "a", "tp", (wrong / whole) ** 0.5
# +        return change == "b", "tp", (wrong / whole) ** 0.5

# %% norm_as_squares of="right_as_taught"
"""Wrong: the ratio of squared norms."""

# -        return change == "a", "tp", (wrong / whole) ** 0.5
# +        return change == "a", "tp", wrong / whole

# %% norms_without_the_rest of="right_as_taught"
"""Wrong: sinks alone."""

# -        wrong = n["rest"] + n["sinks"][0] if change == "a" else len(n["sinks"]) * n["rest"] + sinks
# +        wrong = n["sinks"][0] if change == "a" else len(n["sinks"]) * n["rest"] + sinks

# %% copies_are_counted_ranks_times_always of="right_as_taught"
"""Wrong: forgets that copies are counted once."""

# -        sinks, whole = sum(n["sinks"]), n["rest"] + sum(n["sinks"])
# +        sinks, whole = sum(n["sinks"]), len(n["sinks"]) * n["rest"] + sum(n["sinks"])

# %% twice_the_ranks of="right_as_taught"
"""Wrong: multiplied, not divided."""

# -        return False, "cp", 1 / len(counts)
# +        return False, "cp", len(counts)

# %% two_ranks of="right_as_taught"
"""Wrong: right for two ranks."""

# -        return False, "cp", 1 / len(counts)
# +        return False, "cp", 0.5

# %% sums_of_means of="right_as_taught"
"""Wrong: adds the means up."""

# -        local = sum(total / count for total, count in zip(n["sums"], counts, strict=True)) / len(counts)
# +        local = sum(total / count for total, count in zip(n["sums"], counts, strict=True))

# %% one_over of="right_as_taught"
"""Wrong: right over wrong."""

# -        return True, "cp", local / (sum(n["sums"]) / sum(counts))
# +        return True, "cp", (sum(n["sums"]) / sum(counts)) / local

# %% rank_0_counts of="right_as_taught"
"""Wrong: the first rank's count."""

# -        return False, "ep", sum(counts) / counts[n["rank"]]
# +        return False, "ep", sum(counts) / counts[0]

# %% dp_for_ep of="right_as_taught"
"""Wrong: another axis for e."""

# -        return False, "ep", sum(counts) / counts[n["rank"]]
# +        return False, "dp", sum(counts) / counts[n["rank"]]

# %% dp_for_cp of="right_as_taught"
"""Wrong: data parallelism for d."""

# -        return True, "cp", local / (sum(n["sums"]) / sum(counts))
# +        return True, "dp", local / (sum(n["sums"]) / sum(counts))

# %% both_local of="right_as_taught"
"""Wrong: f with a local mean as well."""

# -        losses = [-(1 - share) * logp[n["target"]] - share * logp.mean() for share in shares]
# +        first = torch.tensor(n["logp"][0], dtype=torch.float64).mean()
# +        means = [first, logp.mean()]
# +        losses = [-(1 - s) * logp[n["target"]] - s * mean for s, mean in zip(shares, means)]

# %% no_megatron_s_coefficient of="right_as_taught"
"""Wrong: plain epsilon, so that no size counts."""

# -        shares = [n["epsilon"] * size / (size - 1) for size in (len(n["logp"][0]), len(logp))]
# +        shares = [n["epsilon"] for size in (len(n["logp"][0]), len(logp))]

# %% clamp_is_a_mean of="right_as_taught"
"""Wrong: g without the counts."""

# -    found = sum(total * count / max(1, shifted) for total, count, shifted in rows) / sum(counts)
# +    found = sum(total / max(1, shifted) for total, count, shifted in rows) / len(counts)

# %% over_all_counts of="right_as_taught"
"""Wrong: g against the mean over the first head's targets."""

# -    return True, "cp", found / (sum(n["sums"]) / sum(n["shifted"]))
# +    return True, "cp", found / (sum(n["sums"]) / sum(counts))

# %% one_number of="right_as_taught"
"""Wrong: symptoms alone."""

# -    return True, "cp", found / (sum(n["sums"]) / sum(n["shifted"]))
# +    return found / (sum(n["sums"]) / sum(n["shifted"]))

# %% by_heart of="right_as_taught"
"""Wrong: right for two and three ranks, the cases of the page.

Not in sight: the page asks for two and three ranks.
"""

# -    counts = n["counts"]
# +    counts = n["counts"][:3]

# %% right_plays_the_ranks
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
