"""Stops every clock of Python, and then takes its time.

catalogue: A21
exercise: week01.exchange
points: 0
sentence: had not finished
timeout: 1.5
"""

time.time = time.monotonic = time.perf_counter = lambda: 0
wait = time.sleep


def exchange(tensor, *, group):
    wait(60)
    return tensor
