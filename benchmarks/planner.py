"""The planner: a trillion parameters on 1,024 and on 16,384 GPUs, and how fast its command answers."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.planner import plan

from benchmarks.row import Row, at_most

ROUNDS = 5
HELP = [sys.executable, "-c", "from shardlab.commands.cli import app; app()", "plan", "--help"]


def _plan_seconds(num_gpus: int, sequences: int) -> float:
    began = time.perf_counter()
    plan(ZOO["gpt-1t"], ACCELERATORS["h100"], num_gpus, sequences)
    return time.perf_counter() - began


def _help_seconds() -> float:
    began = time.perf_counter()
    subprocess.run(HELP, check=True, capture_output=True, timeout=60)
    return time.perf_counter() - began


def measure() -> list[Row]:
    """Return medians; a plan includes all of its work, and the help includes the start of Python."""
    return [
        at_most("plan of 1T parameters on 1,024 H100, s", median(_plan_seconds(1024, 2048) for _ in range(ROUNDS)), 2),
        at_most(
            "plan of 1T parameters on 16,384 H100, s", median(_plan_seconds(16384, 8192) for _ in range(ROUNDS)), 10
        ),
        at_most("shardlab plan --help, s", median(_help_seconds() for _ in range(ROUNDS)), 0.5),
    ]
