"""Different: as the page solves it."""

import torch


def review(change, n):
    if change in "ab":
        sinks, whole = sum(n["sinks"]), n["rest"] + sum(n["sinks"])
        wrong = n["rest"] + n["sinks"][0] if change == "a" else len(n["sinks"]) * n["rest"] + sinks
        return change == "a", "tp", (wrong / whole) ** 0.5
    if change == "f":
        logp = torch.tensor(n["logp"], dtype=torch.float64).flatten()
        shares = [n["epsilon"] * size / (size - 1) for size in (len(n["logp"][0]), len(logp))]
        losses = [-(1 - share) * logp[n["target"]] - share * logp.mean() for share in shares]
        return False, "tp", (losses[0] / losses[1]).item()
    counts = n["counts"]
    if change == "e":
        return False, "ep", sum(counts) / counts[n["rank"]]
    if change == "c":
        return False, "cp", 1 / len(counts)
    if change == "d":
        local = sum(total / count for total, count in zip(n["sums"], counts, strict=True)) / len(counts)
        return True, "cp", local / (sum(n["sums"]) / sum(counts))
    rows = zip(n["sums"], counts, n["shifted"], strict=True)
    found = sum(total * count / max(1, shifted) for total, count, shifted in rows) / sum(counts)
    return True, "cp", found / (sum(n["sums"]) / sum(n["shifted"]))
