"""Dies by a signal that has no name.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: anks
"""


def total_of(tensor, *, group):
    os.kill(os.getpid(), 40)
    time.sleep(5)
