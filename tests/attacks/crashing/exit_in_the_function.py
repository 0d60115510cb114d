"""Ends the process inside the function, with the code of success.

catalogue: B01
exercise: week00.first-all-reduce
points: 0
sentence: left with exit code 0
"""


def total_of(tensor, *, group):
    os._exit(0)
