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
    assert "16 bytes per parameter before ZeRO: weight 2, gradient 2, Adam 12" in done.stdout
    assert "`shardlab memory` counts 18 because it sums gradients over microbatches in fp32" in done.stdout
    assert "did you mean gpt2?" in lab("memory_calculator", "--no-measure", "--model", "gpt-9").stderr.replace(
        "\n", " "
    )


@pytest.mark.slow
def test_tensor_parallel_traffic_is_as_predicted(calibration_file):
    done = lab("tp_simulation", "--ranks", "2", "--calibration", str(calibration_file))
    predicted, measured = re.findall(r"bytes sent by a rank\s+(\d+)\s+(\d+)", done.stdout)[0]
    assert predicted == measured == str(2 * 4 * 512 * 384)  # two all-reduces of fp32 on two ranks
    assert float(done.stdout.split("one rank: ")[1].split()[0]) < 1e-5


def test_a_bad_calibration_is_answered_with_a_sentence(calibration_file):
    cases = ((["--calibration", "none.json"], "no calibration in"), (["--ranks", "8"], "8 ranks were not"))
    for options, sentence in cases:
        typed = ["--calibration", str(calibration_file), *options]
        done = lab("dp_simulation", *typed)
        assert done.returncode == 2 and sentence in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_picture_without_a_folder_is_refused_before_anything_is_measured(name, tmp_path):
    done = lab(name, "--figure", str(tmp_path / "nowhere" / "picture.png"))
    assert done.returncode == 2 and not done.stdout and "there is no folder" in done.stderr


@pytest.mark.slow
def test_figures_are_written_and_put_in_words(calibration_file, tmp_path):
    here = ("--calibration", str(calibration_file))
    for name, options, words in (
        ("tp_simulation", here, "of messages"),
        ("pp_simulation", (*here, "--ranks", "2", "--compute", "32"), "measured time"),
        ("memory_calculator", ("--no-measure",), "ZeRO-3, recompute full"),
    ):
        done = lab(name, *options, "--figure", str(tmp_path / f"{name}.png"))
        assert "In words: " in done.stdout and words in done.stdout, done.stderr
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_data_parallel_traffic_and_the_bubble_are_as_predicted(calibration_file):
    printed = lab("dp_simulation", "--calibration", str(calibration_file)).stdout
    predicted, measured = re.findall(r"bytes sent by a rank\s+(\d+)\s+(\d+)", printed)[0]
    assert predicted == measured
    parts = [float(predicted) for predicted, _ in re.findall(r", ms\s+([\d.]+)\s+([\d.]+)", printed)]
    assert parts[2] == pytest.approx(parts[0] + parts[1], abs=0.02)  # compute + messages = step
    simulated, real = re.findall(r"seconds\s+([\d.]+)\s+([\d.]+)", lab("pp_simulation").stdout)[0]
    assert float(simulated) <= float(real) < 1.5 * float(simulated)
