"""`shardlab doctor`: true findings on this machine, and a problem with advice if something is missing."""

import json
import socket
import subprocess
import sys
import time
from collections import namedtuple

import pytest
import shardlab
from shardlab.commands import cli, doctor
from shardlab.commands.doctor import NOTE, OK, PROBLEM, Finding
from typer.testing import CliRunner

GIB = 2**30


def invoke(*arguments):
    return CliRunner().invoke(cli.app, ["doctor", *arguments])


def examine_only(monkeypatch, *checks):
    monkeypatch.setattr(doctor, "QUICK", list(checks))
    monkeypatch.setattr(doctor, "THOROUGH", [])
    monkeypatch.setattr(doctor, "_checks_of_others", lambda: [])


@pytest.fixture(scope="module")
def findings():
    answer = invoke("--json")
    said = json.loads(answer.stdout)
    assert answer.exit_code == (1 if said["state"] == PROBLEM else 0)
    return {finding["name"]: finding for finding in said["findings"]}


def test_everything_is_looked_at(findings):
    assert {"Python", "torch", "cores", "memory", "GPUs", "transport", "sandbox", "ports", "shared memory"} <= set(
        findings
    )
    assert {"loopback", "host name", "temporary folder", "Chinese font", "2 real ranks"} <= set(findings)


def test_whoever_needs_help_gets_advice(findings):
    assert all(finding["advice"] for finding in findings.values() if finding["state"] != OK)


def test_real_ranks_send_what_the_formula_says(findings):
    assert findings["2 real ranks"]["state"] == OK, findings["2 real ranks"]
    assert "a rank sent 4000 bytes, formula: 4000" in findings["2 real ranks"]["value"]


@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--help"], ["doctor", "--brief"]])
def test_help_and_the_brief_look_import_no_torch(arguments):
    program = (
        "import sys; from shardlab.commands.cli import app; app(sys.argv[1:], standalone_mode=False)\n"
        "print({*sys.modules})"
    )
    begin = time.monotonic()
    answer = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    modules = answer.stdout.splitlines()[-1]
    assert "'shardlab.commands.cli'" in modules and "'torch'" not in modules
    assert time.monotonic() - begin < 5  # half a second on a quiet machine


def test_a_problem_is_shown_with_its_advice_and_the_exit_code_says_so(monkeypatch):
    examine_only(monkeypatch, lambda: Finding("disk", "full", PROBLEM, "throw something away"), doctor.python)
    for arguments in ([], ["--brief"]):
        answer = invoke(*arguments)
        assert answer.exit_code == 1
        assert "→ throw something away" in answer.stdout and "1 of 2 checks" in answer.stdout
        assert ("Python" in answer.stdout) == (arguments == [])


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(monkeypatch):
    def broken_check():
        raise OSError("no such device")

    examine_only(monkeypatch, broken_check, doctor.python)
    first, second = doctor.examine()
    assert (first.name, first.state, second.name) == ("broken check", NOTE, "Python")
    assert "no such device" in first.value


def test_a_host_name_that_nobody_answers_for_costs_two_seconds(monkeypatch):
    monkeypatch.setattr(socket, "gethostbyname", lambda name: time.sleep(6))
    begin = time.monotonic()
    finding = doctor.host_name()
    assert time.monotonic() - begin < 3 and finding.state == NOTE


@pytest.mark.parametrize(("used", "state"), [(0, OK), (7 * GIB, NOTE), (7.8 * GIB, PROBLEM)])
def test_memory_is_the_containers(monkeypatch, used, state):
    limits = {"memory.max": 8 * GIB, "memory.current": used}
    machine_memory = namedtuple("Memory", "total available")(64 * GIB, 60 * GIB)
    monkeypatch.setattr("psutil.virtual_memory", lambda: machine_memory)
    monkeypatch.setattr(doctor, "_container_number", limits.get)
    finding = doctor.memory()
    assert finding.state == state and "of 8.0 GiB" in finding.value


def test_small_shared_memory_is_noted(monkeypatch):
    usage = namedtuple("Usage", "total used free")(2**26, 2**20, 2**26 - 2**20)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert doctor.shared_memory().state == NOTE


def test_no_torch_and_an_old_torch_are_problems(monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "2.9.1+cpu")
    assert doctor.torch_version().state == PROBLEM
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "2.14.1")
    assert doctor.torch_version().state == OK

    def missing(name):
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", missing)
    assert doctor.torch_version().state == PROBLEM


def test_gpus_that_torch_cannot_use_are_noted(monkeypatch):
    monkeypatch.setattr("shardlab.ranks.transports.count_gpus", lambda: 0)
    monkeypatch.setattr(doctor, "_gpus_of_the_driver", lambda: ["H200"])
    finding = doctor.gpus()
    assert finding.state == NOTE and finding.value == "H200" and "make lab GPU=1" in finding.advice


def test_a_meter_that_disagrees_with_the_formula_is_a_problem(monkeypatch):
    monkeypatch.setattr(shardlab, "run", lambda *args, **kwargs: [4000.0, 3996.0])
    finding = doctor.all_reduce()
    assert finding.state == PROBLEM and "disagree" in finding.advice


def test_ranks_that_do_not_start_are_a_problem(monkeypatch):
    def run(*args, **kwargs):
        raise RuntimeError("torchrun ended with code 1 at start")

    monkeypatch.setattr(shardlab, "run", run)
    finding = doctor.all_reduce()
    assert finding.state == PROBLEM and "code 1" in finding.value
