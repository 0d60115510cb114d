"""In a real kernel, Ctrl-C ends the ranks but not the notebook, and killing a notebook ends everything it started."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import shardlab
import torch.distributed as dist
from jupyter_client.manager import start_new_kernel

LIMIT = 20  # seconds for a process to end by itself
FIRST_CELL = """
import shardlab, torch, torch.distributed as dist

def say_and_wait(words):
    if dist.get_rank() == 0:
        print(words)
    import time
    time.sleep(1000)

def fail():
    raise ValueError("on purpose")

shardlab.run(dist.get_rank, ranks=2)
"""


class Notebook:
    """A kernel and the output of its cells: text, the last value, and the lines of a traceback."""

    def __init__(self):
        self.kernel, self.client = start_new_kernel()
        self.process = psutil.Process(self.kernel.provisioner.pid)

    def send(self, code):
        self.client.execute(code)

    def outputs(self, until=None):
        """The output of the running cell until it ends or `until` was printed."""
        text = ""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            content = message["content"]
            text += content.get("text", "") + content.get("data", {}).get("text/plain", "")
            text += "\n".join(content.get("traceback", []))
            if (until and until in text) or content.get("execution_state") == "idle":
                return text

    def run(self, code):
        self.send(code)
        return self.outputs()


@pytest.fixture
def notebook():
    notebook = Notebook()
    yield notebook
    for member in family_of(notebook.process):
        member.kill()
    notebook.client.stop_channels()
    notebook.kernel.shutdown_kernel(now=True)


def family_of(process):
    """torchrun, its worker and the worker's ranks, in this order."""
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_running(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def are_over(processes):
    """Whether all processes end within the limit. Zombies count as ended."""
    until = time.monotonic() + LIMIT
    while any(map(is_running, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(is_running, processes))


@pytest.mark.slow
def test_interrupted_then_without_its_worker_then_killed(notebook):
    assert "[0, 1]" in notebook.run(FIRST_CELL)
    notebook.send("shardlab.run(say_and_wait, 'until Ctrl-C', ranks=2, timeout=600)")
    notebook.outputs(until="[rank 0] until Ctrl-C")
    torchrun, worker, *ranks = family_of(notebook.process)
    assert len(ranks) == 2
    assert shardlab.run(dist.get_rank, ranks=2) == [0, 1]  # two sessions at once

    notebook.kernel.interrupt_kernel()
    assert "KeyboardInterrupt" in notebook.outputs()
    assert are_over(ranks)
    assert "[0, 1]" in notebook.run("shardlab.run(dist.get_rank, ranks=2)")
    assert family_of(notebook.process) == [torchrun, worker]

    report = notebook.run("shardlab.run(fail, ranks=1)")
    assert report.startswith("RanksFailed: Rank 0 failed, which ended the call on 1 rank.")
    assert 'raise ValueError("on purpose")' in report
    assert "shardlab/ranks" not in report

    worker.kill()
    assert are_over([torchrun, worker])
    assert "[0, 1]" in notebook.run("shardlab.run(dist.get_rank, ranks=2)")

    notebook.send("shardlab.run(say_and_wait, 'until killed', ranks=2, timeout=600)")
    notebook.outputs(until="[rank 0] until killed")
    family = family_of(notebook.process)
    assert len(family) == 4
    notebook.process.kill()
    assert are_over(family)


@pytest.mark.slow
def test_a_cold_call_ends_with_its_notebook():
    notebook = subprocess.Popen([sys.executable, Path(__file__).with_name("a_cold_notebook.py")])
    process = psutil.Process(notebook.pid)
    until = time.monotonic() + LIMIT
    while len(family := family_of(process)) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1)  # the rank is importing torch or already in its call
    notebook.kill()
    notebook.wait()
    assert len(family) == 2
    assert are_over(family)
