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
def start():
    """Start a notebook's program; it and its family are over when the test is."""
    families = []

    def start_program(name):
        program = Path(__file__).with_name(name)
        process = subprocess.Popen(
            [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        families.append(process)
        return process

    yield start_program
    for process in families:
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
def test_interrupted_then_without_its_worker_then_killed(start):
    notebook = start("a_notebook.py")
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


@pytest.mark.slow
def test_a_cold_call_ends_with_its_notebook(start):
    notebook = start("a_cold_notebook.py")
    until = time.monotonic() + LIMIT
    while len(family := family_of(notebook)) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1)  # the rank imports torch, or is in its call already
    assert len(family) == 2
    notebook.kill()
    assert are_over(family)
