""""""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from autograder import weeks
from autograder.judging.cluster import judge_all
from autograder.reading.dossier import Dossier
from autograder.sandboxes.zygote import level

# ---- Submissions judged on a Dask cluster: two workers in separate network namespaces, one killed midway. ------------

WEEK = "week01_collectives"
SLEEPY = "import time\ndef naive_all_reduce_bill(n, s):\n    time.sleep(0.1)\n    return 2 * (n - 1), 2 * (n - 1) * s\n"


def dossier(student: str, source: str = SLEEPY) -> Dossier:
    answers = dict.fromkeys(check.exercise for check in weeks.of_week(WEEK))
    answers["week01.naive-bill"] = {"preamble": "", "cells": [["week01.naive-bill", source, True]]}
    return Dossier(student, WEEK, answers, [], True)


def points(judged):
    return sum(verdict.points for verdict in judged.verdicts)


@pytest.mark.slow
def test_threads_of_this_process_judge_side_by_side():
    class_of_four = [dossier(f"s{number}") for number in range(4)]
    results = {one.student: judged for one, judged in judge_all(class_of_four, 1, workers=2)}
    assert {name: points(judged) for name, judged in results.items()} == dict.fromkeys(results, 1) and len(results) == 4


@pytest.mark.slow
def test_an_address_where_nobody_answers():
    with pytest.raises(ValueError, match="no Dask scheduler answers"):
        list(judge_all([dossier("a")], 1, workers=1, scheduler="tcp://127.0.0.1:9"))


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def two_machines(tmp_path):
    """Start a scheduler here and two workers, each in a network namespace linked to us; end them all afterwards."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    tag = f"c{os.getpid() % 10000}"
    processes = []

    def start(*words):
        log = (tmp_path / f"log.{len(processes)}").open("w")
        processes.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True))
        return processes[-1]

    dask = str(Path(sys.executable).parent / "dask")
    try:
        for number in (1, 2):
            net = f"10.213.{number}"
            ip("netns", "add", f"{tag}{number}")
            ip("link", "add", f"{tag}v{number}", "type", "veth", "peer", "name", "eth0", "netns", f"{tag}{number}")
            ip("addr", "add", f"{net}.1/24", "dev", f"{tag}v{number}")
            ip("link", "set", f"{tag}v{number}", "up")
            for words in (["addr", "add", f"{net}.2/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
                ip("-n", f"{tag}{number}", *words)
            ip("-n", f"{tag}{number}", "link", "set", "lo", "up")
        start(dask, "scheduler", "--host", "tcp://0.0.0.0:18786", "--no-dashboard", "--no-show")
        workers = [
            start(
                *("ip", "netns", "exec", f"{tag}{number}", dask, "worker", f"tcp://10.213.{number}.1:18786"),
                *("--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", f"10.213.{number}.2"),
                *("--local-directory", str(tmp_path)),
            )
            for number in (1, 2)
        ]
        yield "tcp://10.213.1.1:18786", workers
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for number in (1, 2):
            subprocess.run(["ip", "netns", "del", f"{tag}{number}"], check=False, capture_output=True)
            subprocess.run(["ip", "link", "del", f"{tag}v{number}"], check=False, capture_output=True)


@pytest.mark.slow
def test_a_killed_worker_loses_no_submission(two_machines):
    address, workers = two_machines
    if level() < 2:
        pytest.skip("no isolation here")
    from distributed import Client

    with Client(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
    results = {}
    began = time.monotonic()
    for one, judged in judge_all([dossier(f"s{number}") for number in range(8)], 1, workers=1, scheduler=address):
        results[one.student] = points(judged)
        if len(results) == 2:
            os.killpg(workers[0].pid, signal.SIGKILL)
    assert results == {f"s{number}": 1 for number in range(8)}
    assert time.monotonic() - began < 150
