"""Returns a list that never comes to an end when it is read.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: had not finished
timeout: 1.5
"""


class Endless(list):
    def __iter__(self):
        while True:
            yield 1


def total_of(tensor, *, group):
    return Endless()
