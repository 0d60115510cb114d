"""The command-line programs of lab 1: they explain themselves, and what they predict is what they measure."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parents[3] / "labs" / "lab01-parallelism-sim"
PROGRAMS = ["dp_simulation", "tp_simulation", "pp_simulation", "memory_calculator"]


def lab(name, *options):
    typed = [sys.executable, str(LAB / f"{name}.py"), *options]
    return subprocess.run(typed, capture_output=True, text=True, check=False, timeout=150)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_explains_itself(name):
    done = lab(name, "--help")
    assert done.returncode == 0 and "Options" in done.stdout


def test_memory_without_measuring():
    done = lab("memory_calculator", "--no-measure", "--model", "llama2-7b")
    assert done.returncode == 0 and done.stdout.count("none") == 4
    assert "use one of" in lab("memory_calculator", "--no-measure", "--model", "gpt-9").stderr.replace("\n", " ")


def test_tensor_parallel_traffic_is_as_predicted():
    done = lab("tp_simulation", "--ranks", "2")
    predicted, measured = re.findall(r"bytes sent by a rank\s+(\d+)\s+(\d+)", done.stdout)[0]
    assert predicted == measured == "65536"
    assert float(done.stdout.split("one rank: ")[1].split()[0]) < 1e-5


@pytest.mark.slow
def test_data_parallel_traffic_and_the_bubble_are_as_predicted():
    predicted, measured = re.findall(r"bytes sent by a rank\s+(\d+)\s+(\d+)", lab("dp_simulation").stdout)[0]
    assert predicted == measured
    simulated, real = re.findall(r"seconds\s+([\d.]+)\s+([\d.]+)", lab("pp_simulation").stdout)[0]
    assert float(simulated) <= float(real) < 1.5 * float(simulated)
