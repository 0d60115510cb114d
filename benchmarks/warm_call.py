"""A warm call on 4 ranks (init, all-reduce, result), compared with the same program under a cold `torchrun`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import shardlab
import torch
import torch.distributed as dist
from shardlab.ranks import transports
from shardlab.ranks.travel import child_environment

from benchmarks.row import Row, at_least_times, at_most

RANKS, ROUNDS, WARM_CALLS = 4, 3, 10
PROGRAM = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
tensor = torch.ones(1000)
dist.all_reduce(tensor)
dist.destroy_process_group()
"""


def all_reduce() -> torch.Tensor:
    """Run on each rank."""
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    return tensor


def measure() -> list[Row]:
    """Alternate one cold start with ten warm calls, three times."""
    shardlab.run(all_reduce, ranks=RANKS)  # starts the worker
    warm: list[float] = []
    cold: list[float] = []
    for _ in range(ROUNDS):
        cold.append(_cold_seconds())
        for _ in range(WARM_CALLS):
            began = time.perf_counter()
            shardlab.run(all_reduce, ranks=RANKS)
            warm.append(time.perf_counter() - began)
    ours, peer = median(warm), median(cold)
    return [
        at_most("warm call on 4 ranks, s", ours, 0.25),
        at_least_times("warm call vs. torchrun, s", ours, peer, 30),
    ]


def _cold_seconds() -> float:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(PROGRAM)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", script]
        began = time.perf_counter()
        environment = child_environment() | transports.environment(transports.GLOO)
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return time.perf_counter() - began
