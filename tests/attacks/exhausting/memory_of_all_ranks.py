"""Takes memory on every rank until there is none.

catalogue: F02
exercise: week00.first-all-reduce
points: 0
sentence: memory
timeout: 20
"""


def total_of(tensor, *, group):
    kept = []
    while True:
        kept.append(torch.ones(8 << 20))
