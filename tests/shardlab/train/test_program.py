"""The training program, survival of lost ranks, and stragglers."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import shardlab
from shardlab.mesh import Mesh
from shardlab.train import KillRank, from_tables, new_folder, read_log, train
from shardlab.train.heartbeat import LOOKS, Beat, Lookout, beating, beats, birth_of, slowest
from shardlab.train.hook import Hook
from shardlab.train.planned import to_toml
from shardlab.train.program import LOST, MEANING, NOT_FINITE, REFUSED, WRONG_RECIPE, is_about_peers, smaller
from shardlab.train.survival import find_lost, goodput, observed

from tests.shardlab.train.small import recipe

# ---- `python -m shardlab.train`, alone and under torchrun: files, lines, exit codes, no process left. ----------------

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


# ---- A rank that dies, stops, is killed on purpose or is slow is named; after a restart the result is bitwise equal. -


def beat_of(process, at):
    return Beat(1, process.pid, birth_of(process), 0, "dp 1", 7, "in its passes", at)


def test_a_dead_process_a_silent_one_and_one_that_is_well():
    me = psutil.Process()
    assert find_lost(beat_of(me, time.monotonic()), 5.0) is None
    silent = find_lost(beat_of(me, time.monotonic() - 60), 5.0)
    assert (
        silent and silent.how == "fell silent" and silent.sentence().startswith("rank 1 (dp 1) fell silent at step 7")
    )
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    beat = beat_of(psutil.Process(child.pid), time.monotonic())
    child.kill()
    child.communicate()
    lost = find_lost(beat, 5.0)
    assert lost and lost.how == "died"


@pytest.mark.skipif(not psutil.LINUX, reason="reads the kernel's start of its clock")
@pytest.mark.parametrize("seconds", [1, -1, 3600])
def test_no_rank_dies_or_falls_silent_when_the_clock_is_set(seconds, monkeypatch):
    """The kernel sometimes corrects its boot time by a second. Afterwards every rank used to be reported dead."""
    me = psutil.Process()
    beat = beat_of(me, time.monotonic())
    started, now = psutil._pslinux.boot_time(), time.time
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: started + seconds)
    monkeypatch.setattr(time, "time", lambda: now() + seconds)
    assert find_lost(beat, 5.0) is None


def test_a_rank_that_ends_by_itself_is_not_missed():
    told = []
    with observed(60.0, 60.0, told.append):
        folder = Path(os.environ["SHARDLAB_BEATS"])
        with beating(3):
            while not beats(folder):
                time.sleep(0.01)
        [last] = beats(folder)
        assert find_lost(replace(last, pid=2**22 + 1, at=0.0), 5.0) is None
    assert not told and not folder.exists() and "SHARDLAB_BEATS" not in os.environ


def test_a_heartbeat_that_is_read_is_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDLAB_BEATS", str(tmp_path))
    with beating(0):
        while not (found := beats(tmp_path)):
            time.sleep(0.01)
    assert found[0].rank == 0 and found[0].pid == os.getpid()


def test_goodput_counts_the_last_time_that_a_step_was_done():
    rows = [{"step": step, "loss": 1.0, "seconds": 2.0} for step in (1, 2, 3, 2, 3, 4)]
    found = goodput([{"say": "hello"}, *rows], seconds=20.0, detection=3.0)
    assert (found.counted, found.twice, found.detection, found.other) == (8.0, 4.0, 3.0, 5.0)
    assert found.share == 0.4 and found.sentence().startswith("goodput 40.0%")


def started(tmp_path, name, mesh, **survival):
    """A 12-step training run as a program, its recipe file and its folder."""
    folder, path = tmp_path / name, tmp_path / f"{name}.toml"
    sections = {"run": {"folder": str(folder), "steps": 12}, "checkpoints": {"every": 2}, "lr": {"warmup": 2}}
    path.write_text(to_toml(recipe(mesh, survival={"patience": 60.0, "silence": 5.0} | survival, **sections)))
    command = [sys.executable, "-m", "shardlab.train", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True), folder


def ranks_of(process):
    """The processes of its ranks, by rank."""
    found = [(int(one.environ().get("RANK", -1)), one) for one in psutil.Process(process.pid).children()]
    return dict(pair for pair in found if pair[0] >= 0)


def wait_for(process, words):
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"ended without {words!r}")


def trained(tmp_path, name, mesh, fault=None, **survival):
    """(step, loss, norm) of every row, and the output. `fault` hits rank 1 after step 4."""
    process, folder = started(tmp_path, name, mesh, **survival)
    if fault:
        wait_for(process, "checkpoint step-00000004")
        ranks_of(process)[1].send_signal(fault)
    rest, _ = process.communicate(timeout=150)
    assert process.returncode == 0, rest
    return [(row["step"], row["loss"], row["norm"]) for row in read_log(folder)], rest


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "how"), [(signal.SIGKILL, "died"), (signal.SIGSTOP, "fell silent")])
def test_a_lost_rank_is_named_and_the_curve_is_an_unbroken_runs(tmp_path, fault, how):
    whole, _ = trained(tmp_path, "whole", {"dp": 2})
    broken, told = trained(tmp_path, "broken", {"dp": 2}, fault, on_lost_rank="restart")
    assert f"{how} at step" in told and "rank 1 (" in told and "goodput" in told and "resumed after step" in told
    assert broken == whole


@pytest.mark.slow
def test_who_is_left_goes_on_with_fewer_replicas(tmp_path):
    whole, _ = trained(tmp_path, "whole", {"dp": 2})
    broken, told = trained(tmp_path, "broken", {"dp": 2}, signal.SIGKILL, on_lost_rank="shrink")
    assert "rank 1 (" in told and "continuing with 1 of 2 ranks: mesh.dp = 1" in told and "goodput" in told
    assert [step for step, *_ in broken] == [*range(1, 13)]
    for one, other in zip(broken, whole, strict=True):
        assert one[1:] == pytest.approx(other[1:], rel=1e-4)


def test_fewer_ranks_are_those_that_mesh_and_batch_allow():
    def sizes(mesh, **sections):
        fewer = smaller(recipe(mesh, **sections), Mesh(**mesh).world)
        return fewer and (fewer.mesh.dp, fewer.mesh.pp, fewer.mesh.tp)

    assert sizes({"dp": 2, "pp": 2}) == (1, 2, 1)
    assert sizes({"dp": 4, "tp": 2}) == (2, 1, 2)  # 8 sequences in 2 microbatches cannot be split over 3
    assert sizes({"pp": 4}) is None


@pytest.mark.slow
def test_a_rank_that_stops_before_its_first_heartbeat_is_named(tmp_path):
    process, _ = started(tmp_path, "early", {"dp": 2}, patience=40.0)
    while 1 not in ranks_of(process):
        time.sleep(0.005)
    ranks_of(process)[1].suspend()
    told, _ = process.communicate(timeout=150)
    assert "rank 1 fell silent at step 0, before its first heartbeat" in told and process.returncode == LOST


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
def test_who_ends_the_launching_process_loses_no_rank_and_leaves_none(tmp_path, stopped):
    process, _ = started(tmp_path, "ended", {"dp": 2})
    wait_for(process, "checkpoint step-00000002")
    ranks = ranks_of(process)
    if stopped:
        ranks[1].suspend()
    process.terminate()
    told, _ = process.communicate(timeout=25)  # the agent gives a rank 30 seconds, which none needs
    assert " at step " not in told and not any(rank.is_running() for rank in ranks.values())


@pytest.mark.parametrize(
    ("working", "stages", "found"),
    [
        ([1.0, 3.0], [0, 0], (1, 3.0)),
        ([1.0, 1.0, 2.0, 1.0], [0, 0, 0, 0], (2, 2.0)),
        ([1.0, 1.0, 4.0, 4.0], [0, 0, 1, 1], 1.0),  # different stages have different work
        ([1.0, 2.0, 4.0, 4.0], [0, 0, 1, 1], (1, 2.0)),
        ([1.0, 3.0, 1.0], [0, 1, 2], (1, 3.0)),  # no peers, so compared with all others
        ([5.0], [0], None),
    ],
)
def test_slowest_for_its_part(working, stages, found):
    told = slowest(working, stages)
    assert (told[1] if isinstance(found, float) else told) == found


class Sleeps(Hook):
    """Makes one rank sleep inside the given steps."""

    def __init__(self, rank, steps):
        self.rank, self.steps = rank, steps

    def on_begin(self, training):
        model = next(iter(training.trainer.parts.values()))
        model.register_forward_pre_hook(lambda *_: self._sleep(training))

    def _sleep(self, training):
        if training.rank == self.rank and training.done + 1 in self.steps:
            time.sleep(0.4)


def said(*steps):
    """What is reported about stragglers if each rank, starting with the last, sleeps in some steps."""
    lines = []
    one = recipe({"dp": 2}, run={"steps": 8}, step={"batch": 8, "microbatches": 2})

    class Listens(Hook):
        def on_begin(self, training):
            training.logs.say = lines.append

    asleep = [Sleeps(1 - number, some) for number, some in enumerate(steps)]
    train(one, hooks=[Listens(), Lookout(1, ends=False), *asleep], quiet=True)
    return [line for line in lines if "straggler" in line]


def test_a_rank_that_sleeps_three_steps_in_a_row_is_named():
    for lines in shardlab.run(said, [3, 4, 5], ranks=2, timeout=60, observe=False):
        assert lines[0].startswith("rank 1 (dp 1) is a straggler") and "in step 5" in lines[0]


def test_fewer_looks_are_not_enough():
    assert LOOKS == 3
    then_the_other = [4, 8]  # otherwise a busy machine could cause a third slow step
    assert shardlab.run(said, [2, 3, 6, 7], then_the_other, ranks=2, timeout=60, observe=False) == [[], []]


def recipe_in(folder):
    tables = {
        "model": {"layers": 1, "hidden": 8, "heads": 2, "sequence": 8, "tied": False},
        "mesh": {"dp": 2},
        "step": {"batch": 2},
        "run": {"steps": 6, "folder": str(folder)},
        "checkpoints": {"every": 2},
        "log": {"tensorboard": False, "figure": False, "measure": 0},
    }
    return from_tables(tables)


def test_a_killed_rank_leaves_earlier_checkpoints_whole():
    folder = new_folder()
    hooks = [KillRank(1, step=5)]
    with pytest.raises(shardlab.RanksFailed, match="rank 1"):
        shardlab.run(lambda: train(recipe_in(folder), hooks=hooks, quiet=True), ranks=2, timeout=60)
    saved = {path.name for path in (folder / "checkpoints").iterdir()}
    assert {one.lstrip("step-0") for one in saved if one.startswith("step-")} >= {"2"}
    assert not any("6" in name for name in saved)  # the checkpoint after step 4 may still be in progress


def test_each_folder_is_new_and_empty():
    first, second = new_folder(), new_folder()
    assert first != second and not list(first.iterdir())


@pytest.mark.parametrize(("rank", "step"), [(-1, 3), (0, 0)])
def test_what_no_training_has_cannot_be_killed(rank, step):
    with pytest.raises(ValueError, match="ranks count from 0, steps from 1"):
        KillRank(rank, step=step)
