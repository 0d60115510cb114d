"""Answers rightly and leaves a process of its own session behind, twice forked.

catalogue: C10
exercise: week00.first-all-reduce
points: 1
sentence: Correct
"""


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return total
