"""A call leaves nothing behind: no process, file, socket or shared memory, and no memory in the worker."""

import os
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.ranks import warm

CALLS = 200


def test_strays_of_a_rank_are_ended_and_do_not_hold_up_its_result():
    def leave_strays():
        sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        pid = os.fork()  # like a data loader's worker, it keeps every pipe of its rank open
        if pid == 0:
            os.setsid()
            time.sleep(1000)
        return [sleeper.pid, pid]

    began = time.monotonic()
    strays = [pid for pids in shardlab.run(leave_strays, ranks=2) for pid in pids]
    assert time.monotonic() - began < 15
    assert len(strays) == 4
    assert not any(psutil.pid_exists(pid) for pid in strays)


def test_an_ended_call_leaves_no_process():
    def spin():
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        print(os.getpid())
        while True:
            pass

    with pytest.raises(shardlab.RanksFailed):
        shardlab.run(spin, ranks=2, timeout=0.5)
    assert worker_process().children(recursive=True) == []


def worker_process():
    [worker] = psutil.Process(warm.worker()._process.pid).children()
    return worker


def traces():
    """Everything that a leak would increase: processes, descriptors and sockets of worker and test, shared memory."""
    worker = worker_process()
    return {
        "processes": len(psutil.Process().children(recursive=True)),
        "worker's files": worker.num_fds(),
        "our files": psutil.Process().num_fds(),
        "sockets": len(worker.net_connections()) + len(psutil.Process().net_connections()),
        "shared memory": sorted(path.name for path in Path("/dev/shm").glob("[!.]*")),  # a browser's begin with a dot
    }


@pytest.mark.slow
def test_many_calls_leave_nothing_and_memory_stays_flat():
    def all_reduce():
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        return tensor

    for _ in range(5):
        shardlab.run(all_reduce, ranks=2)
    before, memory = traces(), worker_process().memory_info().rss
    for _ in range(CALLS):
        shardlab.run(all_reduce, ranks=2)
    assert traces() == before
    assert worker_process().memory_info().rss - memory < 4 << 20
