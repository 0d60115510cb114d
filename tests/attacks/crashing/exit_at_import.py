"""Ends the process while the cell is run.

catalogue: B02
exercise: week00.first-all-reduce
points: 0
sentence: left with exit code 0
"""

os._exit(0)


def total_of(tensor, *, group):
    return tensor
