"""With hard `ulimit`s lower than a job would set, the job works within them."""

import json
import subprocess
import sys

import pytest

LIMITS = {"NOFILE": 256, "FSIZE": 32 << 20, "CPU": 600, "AS": 40 << 30, "NPROC": 20_000, "CORE": 0}
PROGRAM = """
import json, resource, sys
for name, value in json.loads(sys.argv[1]).items():
    resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
from autograder import weeks
from autograder.judging.judge import Judge
check = weeks.find("week01.naive-bill")
source = "def naive_all_reduce_bill(n, b):\\n    return 2 * (n - 1), 2 * (n - 1) * b\\n"
with Judge() as judge:
    print(judge.judge(check, {"preamble": "", "cells": [[check.exercise, source, True]]}, 1).text)
"""
LOW = """
import resource
for name in ("RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CPU"):
    resource.setrlimit(getattr(resource, name), (int({values}[name]), int({values}[name])))
from autograder.jobs import confine, job
job._limit_own_memory()
confine.limit(seconds=1000, memory_bytes=8 << 30)
print(*(resource.getrlimit(getattr(resource, name))[1] for name in {values}))
"""


def run(program, *arguments):
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=170, check=False)


@pytest.mark.slow
def test_an_answer_is_judged_under_hard_limits():
    answer = run(PROGRAM, json.dumps(LIMITS))
    assert answer.stdout.strip() == "Correct.", answer.stdout + answer.stderr


@pytest.mark.slow
def test_no_limit_is_raised_above_what_is_allowed():
    values = {"RLIMIT_AS": 1 << 31, "RLIMIT_NOFILE": 200, "RLIMIT_FSIZE": 1 << 20, "RLIMIT_CPU": 100}
    answer = run(LOW.format(values=values))
    assert answer.stdout.split() == list(map(str, values.values())), answer.stderr
