"""`shardlab calibrate` and `shardlab doctor`."""

import json
import socket
import subprocess
import sys
import time
from collections import namedtuple

import numpy as np
import pytest
import shardlab
import torch
from shardlab.commands import cli, doctor
from shardlab.commands.calibration.compute import _least_squares, seconds_of, training_pass
from shardlab.commands.calibration.links import links_of, sharing_of, slowest
from shardlab.commands.calibration.measure import SIZES, bookkeeping_of, calibrate
from shardlab.commands.cli import app
from shardlab.commands.doctor import NOTE, OK, PROBLEM, Finding
from shardlab.costs.clock.calibration import read_calibration
from shardlab.costs.traffic import all_gather_seconds, all_reduce_seconds
from shardlab.model.gpt import GPT
from typer.testing import CliRunner

# ---- How measurements become a calibration, and the command. The machine itself is measured once, but not judged. ----

ALPHA, BETA = 2e-4, 1.5e-9


def shardlab_calibrate(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "400", "TERM": "dumb"})


def rounds_between(ranks):
    """What ranks of a machine with exactly ALPHA and BETA would measure, with one round in three disturbed."""
    found = {}
    for num_bytes in (2**12, 2**16, 2**21):
        link = {"alpha": ALPHA, "beta": BETA}
        gather = all_gather_seconds(ranks, num_bytes, **link)
        send = 2 * (ALPHA + BETA * num_bytes / ranks)
        reduce = all_reduce_seconds(ranks, num_bytes, **link)
        for kind, seconds in (
            ("all_reduce", reduce), ("reduce_scatter", gather), ("all_gather", gather), ("send", send)
        ):  # fmt: skip
            found[kind, num_bytes] = [seconds, 9 * seconds, seconds]
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_links_are_found_again(ranks):
    slow = rounds_between(ranks)
    quick = {key: [seconds / 2 for seconds in rounds] for key, rounds in slow.items()}
    for link in links_of([quick] * (ranks - 1) + [slow]).values():
        assert (link.alpha, link.beta) == pytest.approx((ALPHA, BETA), rel=1e-6)


def test_a_round_lasts_as_long_as_its_slowest_rank():
    assert slowest([{"compute": [1.0, 5.0, 1.0]}, {"compute": [3.0, 1.0, 2.0]}], "compute") == 3.0


def shared(beside, alone=2.0, message=2.0, after=5.0):
    return [{"alone": [alone], "message": [message], "after": [after], "beside": [beside]}] * 2


@pytest.mark.parametrize(("beside", "share"), [(5.0, 0.0), (3.0, 1.0), (4.0, 0.5), (9.0, 0.0), (2.0, 1.0)])
def test_what_is_hidden(beside, share):
    assert sharing_of(shared(beside)) == (1.5, share)  # 5 s minus 2 s of message is 1.5 times the 2 s alone


def test_a_machine_that_hiccups_while_one_rank_computes_gives_no_nonsense():
    assert sharing_of(shared(5.0, alone=9.0, message=6.0)) == (0.5, 0.0)  # "after" is shorter than its message


def test_least_squares_leaves_no_constant_negative():
    rows = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
    assert _least_squares(rows, rows @ np.array([2.0, 3.0])) == pytest.approx([2.0, 3.0])
    first, second = _least_squares(rows, np.array([1.0, 2.0, 4.5]))
    assert first == 0.0 and 1.0 < second < 1.2
    assert _least_squares(rows, -rows[:, 1]) == [0.0, 0.0]


def test_bookkeeping_of_tensors_and_parameters():
    small, large = (sum(one.numel() for one in GPT(config).parameters()) for config in SIZES)
    tensors = len(list(GPT(SIZES[0]).parameters()))
    measured = [[tensors * 1e-4 + size * 2e-9 for size in (small, large)], [1e-3, 5e-4], [-1e-3, -2e-3], [0.0, 1e-3]]
    found = bookkeeping_of(measured)
    assert found[0] == pytest.approx((1e-4, 2e-9))
    assert found[1] == (1e-3 / tensors, 0.0) and found[2] == (0.0, 0.0)
    assert found[3] == (0.0, 1e-3 / (large - small))


def test_a_pass_forgets_the_gradients_before():
    layer = torch.nn.Linear(3, 2)
    one = training_pass(layer, lambda: layer(torch.ones(1, 3)).sum())
    one()
    once = layer.weight.grad.clone()
    one()
    assert torch.equal(layer.weight.grad, once)


def test_short_calls_are_measured_many_at_a_time():
    calls = []
    seconds = seconds_of(lambda: calls.append(1), torch.device("cpu"), rounds=2)
    assert len(calls) > 50 and seconds > 0


@pytest.mark.slow
def test_the_command_measures_and_its_file_is_read(tmp_path):
    path = tmp_path / "deep" / "here.json"
    done = shardlab_calibrate("calibrate", "--ranks", "2", "--device", "cpu", "--out", str(path))
    assert done.exit_code == 0 and f"wrote {path}" in done.output
    here = read_calibration(path)
    assert list(here.ranks) == [2] and here.transport == "gloo"
    assert here.matmul["float32"][1024] > 5 * here.matmul["float32"][16]  # a small product is all launch overhead
    assert here.ranks[2].links["all_reduce"].alpha > 0
    assert f"{max(here.matmul['float32'].values()) / 1e9:.1f} GFLOP/s" in done.output


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (("--ranks", "two"), "use a list such as 2,4"),
        (("--ranks", "0"), "use numbers from 1 to 64"),
        (("--ranks", "999"), "use numbers from 1 to 64"),
        (("--device", "tpu"), "use cpu or cuda"),
        (("--out", "/proc/none/here.json"), "cannot write"),
    ],
)
def test_bad_input_is_answered_before_anything_is_measured(typed, sentence, tmp_path):
    out = () if "--out" in typed else ("--out", str(tmp_path / "here.json"))
    done = shardlab_calibrate("calibrate", *typed, *out)
    assert done.exit_code == 2 and sentence in done.output and "Traceback" not in done.output
    assert not (tmp_path / "here.json").exists()


def test_one_rank_is_not_together():
    with pytest.raises(ValueError, match="use 2 or more"):
        calibrate([1])


def test_a_gpu_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ValueError, match="use cpu"):
        calibrate([2], device="cuda")


# ---- `shardlab doctor`: true findings on this machine, and a problem with advice if something is missing. ------------

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
