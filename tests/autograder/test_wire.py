"""Whose bytes they are: two ranks may have the same port, as long as their peers' ports differ."""

import json
import os
import struct
import subprocess
import sys

import pytest

from autograder.jobs.wire import Tap


def message(num_bytes):
    """A frame of gloo's that carries `num_bytes` of a send."""
    return bytearray(struct.pack("<QQQQQQ", 48 + num_bytes, 0, 0, 0, num_bytes, 0) + bytes(num_bytes))


def test_two_ranks_with_one_port_are_told_apart(monkeypatch):
    tap = Tap.__new__(Tap)
    tap.num_noted = 0
    tap.notes_out, notes_in = os.pipe()
    # rank 1 and rank 2 both connected from port 40000: to rank 0, which listens on 50000, and to rank 3, on 53000
    sockets = {0: [(50000, 40000, 0)], 1: [(40000, 50000, 0)], 2: [(40000, 53000, 0)], 3: [(53000, 40000, 0)]}
    for rank, own in sockets.items():
        os.write(notes_in, json.dumps([rank, own]).encode() + b"\n")
    os.close(notes_in)
    streams = {(40000, 50000): message(100), (40000, 53000): message(7), (53000, 40000): message(30)}
    monkeypatch.setattr(tap, "_streams", lambda: streams)
    assert sorted(tap.read()) == [[1, 0, "message", 1, 100], [2, 3, "message", 1, 7], [3, 2, "message", 1, 30]]
    assert tap.num_noted == 4
    os.close(tap.notes_out)


FEW_PORTS = """
import os
from autograder.jobs import confine, job
settle = confine.settle

def settle_with_few_ports(masked):
    settle(masked)
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as file:
        file.write("40000 40019")

confine.settle = settle_with_few_ports
from autograder.jobs import zygote
zygote.main()
"""

GRADES = """
import sys
from autograder import checks, kill_matrix, sandbox
from autograder.judge import Judge

if {few_ports}:
    popen = sandbox.subprocess.Popen
    def started(command, **options):
        if "autograder.jobs.zygote" in command:
            place = command.index("-m")
            command = [*command[:place], "-c", {source!r}, *command[place + 2 :]]
        return popen(command, **options)
    sandbox.subprocess.Popen = started
check = checks.find("week01.ring-reduce-scatter")
right = next(path for path in kill_matrix.mutants_of(check) if path.stem.startswith("right_")).read_text()
answer = {{"preamble": kill_matrix.PREAMBLE, "cells": [[check.exercise, right, True]]}}
with Judge() as judge:
    for seed in range(4):
        print(judge.judge(check, answer, seed, [{{"ranks": 4, "numbers": 37, "subgroup": [1, 2, 3]}}]).text)
"""


@pytest.mark.sandbox(3)
def test_an_honest_answer_keeps_its_points_where_ports_are_shared():
    """Twenty ports for seven listeners and nine connections: Linux gives several ranks the same one."""
    script = GRADES.format(few_ports=True, source=FEW_PORTS)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines() == ["All right."] * 4, done.stdout + done.stderr
