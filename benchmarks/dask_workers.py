"""Grade submissions that sleep with one Dask worker and with two."""

from __future__ import annotations

import time
from statistics import median

from distributed import LocalCluster

from autograder import weeks
from autograder.demo import WEEK
from autograder.judging.cluster import judge_all
from autograder.reading.dossier import Dossier
from benchmarks.row import Row, at_least_times

SLEEPY = "import time\ndef naive_all_reduce_bill(n, s):\n    time.sleep(0.4)\n    return 2 * (n - 1), 2 * (n - 1) * s\n"
CLASS_SIZE = 12
ROUNDS = 3


def measure() -> list[Row]:
    """Alternate between a cluster of one process and one of two; both are warmed up before timing."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with (one := _cluster(1)), (two := _cluster(2)):
        for number in range(ROUNDS + 1):
            for workers, cluster in ((1, one), (2, two)):
                began = time.perf_counter()
                judged = list(judge_all(_class(), number, workers=1, scheduler=cluster.scheduler_address))
                if len(judged) != CLASS_SIZE:
                    raise RuntimeError("a submission was lost")
                seconds[workers].append(time.perf_counter() - began)
    ours, peer = (median(seconds[workers][1:]) for workers in (2, 1))  # the first round starts the sandboxes
    return [at_least_times(f"{CLASS_SIZE} sleeping submissions, 2 workers vs. 1, s", ours, peer, 1.8)]


def _cluster(workers: int) -> LocalCluster:
    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")


def _class() -> list[Dossier]:
    answers = dict.fromkeys(check.exercise for check in weeks.of_week(WEEK))
    answers["week01.naive-bill"] = {"preamble": "", "cells": [["week01.naive-bill", SLEEPY, True]]}
    return [Dossier(f"student-{number}", WEEK, answers, [], True) for number in range(CLASS_SIZE)]
