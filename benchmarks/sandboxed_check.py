"""One case of a check on four ranks in the sandbox, compared with the same ranks started cold by torchrun."""

from __future__ import annotations

import time
from random import Random
from statistics import median

import shardlab
import torch
import torch.distributed as dist

from autograder import weeks
from autograder.judging.judge import Judge
from autograder.matrices import known
from autograder.matrices.kill_matrix import PREAMBLE
from benchmarks.row import Row, at_least_times, at_most

EXERCISE = "week01.ring-all-reduce"
CASE = {"ranks": 4, "numbers": 1000, "part": "all-reduce"}
ROUNDS, WARM_PER_COLD = 3, 10


def measure() -> list[Row]:
    """Alternate some sandboxed checks with one cold call."""
    check = weeks.find(EXERCISE)
    source = known.right_of(EXERCISE).source
    answer = {"preamble": PREAMBLE, "cells": [[EXERCISE, source, True]]}
    ours, peer = [], []
    with Judge() as judge:
        judge.judge(check, answer, 0, [CASE])
        for number in range(ROUNDS):
            for _ in range(WARM_PER_COLD):
                began = time.perf_counter()
                if not judge.judge(check, answer, Random(number).randrange(1000), [CASE]).is_right:
                    raise RuntimeError("a correct answer did not get its points")
                ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            shardlab.run(one_all_reduce, ranks=4, timeout=60, launcher="torchrun")
            peer.append(time.perf_counter() - began)
    return [
        at_most("a sandboxed check on 4 ranks, s", median(ours), 0.2, peer=median(peer)),
        at_least_times("the same vs. a cold torchrun, s", median(ours), median(peer), 20),
    ]


def one_all_reduce() -> torch.Tensor:
    """Do what a check would run without the sandbox."""
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    return tensor
