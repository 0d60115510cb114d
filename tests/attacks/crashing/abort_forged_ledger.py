"""Fills its own ledger with garbage through the memory it shares with its supervisor, then dies.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: Rank
"""

import sys


def total_of(tensor, *, group):
    memory = sys.modules["shardlab.meter.record"]._recorder.writer._memory
    memory[:] = os.urandom(len(memory))
    memory[:8] = (4000).to_bytes(8, "little")
    os._exit(3)
