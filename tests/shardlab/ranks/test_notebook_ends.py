"""Ctrl-C ends the ranks and not the notebook; a killed notebook ends everything it started."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import shardlab
import torch.distributed as dist

LIMIT = 20  # seconds in which a process ends by itself


@pytest.fixture
def notebook():
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("a_notebook.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    for member in family_of(process):
        member.kill()
    process.kill()
    process.wait()


def family_of(process):
    """torchrun, its worker and the worker's ranks, in this order."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_running(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def are_over(processes):
    """Whether all processes end within the limit; whether their parent has asked for their exit codes is not ours."""
    until = time.monotonic() + LIMIT
    while any(map(is_running, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(is_running, processes))


def next_line(process):
    return process.stdout.readline().rstrip()


@pytest.mark.slow
def test_interrupted_then_without_its_worker_then_killed(notebook):
    assert next_line(notebook) == "first [0, 1]"
    assert next_line(notebook) == "[rank 0] waiting for Ctrl-C"
    torchrun, worker, *ranks = family_of(notebook)
    assert len(ranks) == 2
    assert shardlab.run(dist.get_rank, ranks=2) == [0, 1]  # two sessions at once

    notebook.send_signal(signal.SIGINT)
    assert next_line(notebook) == "interrupted"
    assert are_over(ranks)
    assert next_line(notebook) == "second [0, 1]"
    assert family_of(notebook) == [torchrun, worker]

    worker.kill()
    assert are_over([torchrun, worker])
    notebook.stdin.write("\n")
    notebook.stdin.flush()
    assert next_line(notebook) == "third [0, 1]"

    assert next_line(notebook) == "[rank 0] waiting to be killed"
    family = family_of(notebook)
    assert len(family) == 4
    notebook.kill()
    assert are_over(family)
