"""Makes a process group of its own on the loopback, which no recorder sees, and calls the library there.

catalogue: own
exercise: week01.ring-all-reduce
points: 0
sentence: -
cases: part:all-reduce
"""

import datetime
import sys


def ring_all_gather(chunk, sizes, *, group):
    raise NotImplementedError


def ring_all_reduce(tensor, *, group):
    rank, size, limit = dist.get_rank(), dist.get_world_size(), datetime.timedelta(seconds=2)
    store = dist.TCPStore("127.0.0.1", 29412, size, is_master=rank == 0, timeout=limit)
    own = dist.ProcessGroupGloo(store, rank, size, limit)
    total = tensor.clone()
    own.allreduce([total], dist.AllreduceOptions()).wait()
    return total
