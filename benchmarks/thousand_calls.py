"""A thousand warm calls: which resources they leave behind, and how much memory they leak."""

from __future__ import annotations

from pathlib import Path

import psutil
import shardlab
from shardlab.ranks import warm

from benchmarks.row import Row, at_most
from benchmarks.warm_call import all_reduce

CALLS, RANKS, SETTLED = 1000, 4, 50
MEGABYTE = 1e6


def measure() -> list[Row]:
    """Compare the resources of our process and the worker after 50 calls with those after 1,050."""
    for _ in range(SETTLED):
        shardlab.run(all_reduce, ranks=RANKS)
    before, memory = _traces(), _memory()
    for _ in range(CALLS):
        shardlab.run(all_reduce, ranks=RANKS)
    left = sum(max(0, after - number) for after, number in zip(_traces(), before, strict=True))
    return [
        at_most("processes, files, ports and shared memory left by 1,000 calls", left, 0),
        at_most("memory kept by 1,000 calls, MB", max(0.0, (_memory() - memory) / MEGABYTE), 8),
    ]


def _us_and_the_worker() -> list[psutil.Process]:
    return [psutil.Process(), *psutil.Process(warm.worker()._process.pid).children()]


def _traces() -> list[int]:
    """Return the numbers of processes, open files, connections and shared-memory segments."""
    both = _us_and_the_worker()
    return [
        len(both[0].children(recursive=True)),
        sum(process.num_fds() for process in both),
        sum(len(process.net_connections()) for process in both),
        len(list(Path("/dev/shm").glob("[!.]*"))),  # names of browser segments begin with a dot
    ]


def _memory() -> int:
    return sum(process.memory_info().rss for process in _us_and_the_worker())
