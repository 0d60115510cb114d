"""Returns two gigabytes where a few bytes are due.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: -
"""


def total_of(tensor, *, group):
    return torch.zeros(500_000_000)
