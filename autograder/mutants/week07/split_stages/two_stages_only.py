"""Wrong: the best cut in two, then the rest one layer a stage."""


def split_stages(seconds, num_stages):
    if num_stages == 1:
        return [len(seconds)]
    cuts = range(1, len(seconds) - num_stages + 2)
    cut = min(cuts, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))
    return [cut, *[1] * (num_stages - 2), len(seconds) - cut - num_stages + 2]
