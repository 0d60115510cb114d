"""Lab 3, started as a student would: bytes match the prediction, and PyTorch's own classes hold and send as much."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parents[2] / "labs" / "lab03-zero"
SMALL = ["--layers", "2", "--hidden", "24", "--steps", "1", "--batch", "2"]
TORCHRUN = (str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc-per-node", "2")


def lab(name, *options, launcher=(sys.executable,)):
    typed = [*launcher, str(LAB / name), *map(str, options)]
    return subprocess.run(typed, capture_output=True, text=True, check=False, timeout=170)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_predicted_and_measured_agree(stage):
    done = lab(f"zero_stage{stage}.py", "--ranks", 3, *SMALL)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\w.*), bytes +([\d,]+) +([\d,]+)$", done.stdout, re.MULTILINE)
    assert [label for label, _, _ in rows] == [
        "weights",
        "gradients",
        "optimizer state",
        "all states",
        "sent per step",
    ]
    assert all(predicted == measured for _, predicted, measured in rows)
    assert "differs" not in done.stdout


@pytest.mark.slow
def test_torchrun_starts_it_as_well():
    done = lab("zero_stage2.py", *SMALL, launcher=TORCHRUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("predicted") == 1 and "differs" not in done.stdout


@pytest.mark.slow
def test_the_comparison_finds_pytorch_s_bytes(tmp_path):
    done = lab("communication_analysis.py", *SMALL, "--figure", tmp_path / "lab03.png")
    assert done.returncode == 0, done.stderr
    row = r"^(\S.*?) +([\d.]+|unseen) +([\d.]+) +([\d.]+) +\d+ +[\d.]+ +\S+ +([\d.]+)$"
    rows = re.findall(row, done.stdout, re.MULTILINE)
    sent = {name: float(bytes_sent) for name, _, _, bytes_sent, _ in rows}
    peaks = {name: float(peak) for name, _, peak, _, _ in rows}
    losses = [float(loss) for *_, loss in rows]
    assert sent["DDP"] == sent["torch DDP"] and sent["ZeRO-3"] == sent["torch FSDP2"]
    assert 0 < peaks["ZeRO-3"] < peaks["DDP"]
    assert max(losses) - min(losses) < 1e-4
    assert "In words" in done.stdout and (tmp_path / "lab03.png").stat().st_size > 10_000


def test_sizes_that_cannot_be_are_refused_with_a_sentence():
    done = lab("zero_stage1.py", "--ranks", 0)
    assert done.returncode == 2 and "greater than or equal to 1" in done.stderr
