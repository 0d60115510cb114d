"""`python -m shardlab.train`, alone and under torchrun: files, lines, exit codes, no process left."""

import signal
import subprocess
import sys
import time

import psutil
import pytest
from shardlab.train import read_log
from shardlab.train.planned import to_toml
from shardlab.train.program import MEANING, NOT_FINITE, REFUSED, WRONG_RECIPE, is_about_peers

from tests.shardlab.train.small import recipe

TRAIN = [sys.executable, "-m", "shardlab.train"]


def written(tmp_path, mesh=None, **sections):
    path = tmp_path / "small.toml"
    path.write_text(to_toml(recipe(mesh, **sections)))
    return str(path)


def done(*arguments, command=TRAIN):
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=150, check=False)


def test_a_wrong_recipe_ends_before_a_rank_is_started(tmp_path):
    told = done(written(tmp_path), "--set", "mesh.tp=two")
    assert told.returncode == WRONG_RECIPE and "mesh.tp = 'two' is not a whole number" in told.stderr
    assert len(told.stderr.splitlines()) == 1


@pytest.mark.slow
def test_more_ranks_than_the_mesh_divides(tmp_path):
    told = done(written(tmp_path, {"tp": 2}), "--ranks", "3")
    assert told.returncode == WRONG_RECIPE and "use 2 ranks" in told.stderr


@pytest.mark.slow
def test_it_starts_its_ranks_and_resumes(tmp_path):
    path, folder = written(tmp_path, {"dp": 2}, run={"folder": str(tmp_path / "run")}), tmp_path / "run"
    first = done(path, "--set", "run.until=2")
    assert first.returncode == 0, first.stderr
    assert "dp 2 pp 1" in first.stdout and "step 2/4" in first.stdout and "step-00000002" in first.stdout
    behind = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "shardlab.train",
    ]
    second = done(path, "--set", "mesh.dp=0", "--set", "mesh.tp=2", command=behind)
    assert second.returncode == 0, second.stderr
    assert "resumed after step 2, saved on dp 2 pp 1 cp 1 tp 1 ep 1" in second.stdout
    assert [row["step"] for row in read_log(folder)] == [1, 2, 3, 4]


@pytest.mark.slow
def test_exit_codes_say_what_happened(tmp_path):
    path = written(tmp_path, run={"folder": str(tmp_path / "run")})
    assert (
        done(path, "--set", "lr.peak=1e30", "--set", "lr.warmup=0", "--set", "step.max_norm=0").returncode == NOT_FINITE
    )
    assert done(path, "--quiet").returncode == 0
    told = done(path, "--set", "run.seed=1")
    assert told.returncode == REFUSED and "belongs to another run: data was" in told.stderr and told.stdout
    assert {*MEANING} == set(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stop", "restart"])
def test_a_rank_that_is_killed_ends_the_run_or_starts_it_again(tmp_path, way):
    folder = tmp_path / "run"
    sections = {"run": {"folder": str(folder), "steps": 60}, "checkpoints": {"every": 2}, "lr": {"warmup": 2}}
    path = written(tmp_path, {"dp": 2}, survival={"on_lost_rank": way, "patience": 20.0}, **sections)
    process = subprocess.Popen([*TRAIN, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if "checkpoint step-00000004" in line:
            break
    ranks = [one for one in psutil.Process(process.pid).children(recursive=True) if path in one.cmdline()]
    victim = max(ranks, key=lambda one: one.pid)
    assert len(ranks) == 2
    victim.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=150)
    if way == "stop":
        assert process.returncode == 5, rest
        assert "was lost" in rest or "ended by signal 9" in rest
    else:
        assert process.returncode == 0, rest
        assert "resumed after step" in rest and "step 60/60" in rest
    for _ in range(50):
        left = [one for one in psutil.process_iter(["cmdline"]) if path in (one.info["cmdline"] or [])]
        if not left:
            break
        time.sleep(0.1)
    assert not left


def test_errors_of_peers_are_told_from_others():
    assert is_about_peers(RuntimeError("[gloo/transport/tcp/pair.cc:525] Read error: Connection reset by peer"))
    assert not is_about_peers(RuntimeError("shape '[2, 3]' is invalid for input of size 5"))
