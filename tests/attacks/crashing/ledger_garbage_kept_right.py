"""Answers rightly and fills its ledger with garbage: the ledger explains, it does not grade.

catalogue: own
exercise: week00.first-all-reduce
points: 1
sentence: Correct
"""

import sys


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    memory = sys.modules["shardlab.meter.record"]._recorder.writer._memory
    memory[8:] = b"\x07" * (len(memory) - 8)
    return total
