"""Sets every bit of its ledger, counter included, then dies.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: Rank
"""

import sys


def total_of(tensor, *, group):
    memory = sys.modules["shardlab.meter.record"]._recorder.writer._memory
    memory[:] = b"\xff" * len(memory)
    memory[:8] = (1 << 39).to_bytes(8, "little")
    os._exit(3)
