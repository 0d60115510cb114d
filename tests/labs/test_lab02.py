"""Lab 2: the real megatron-core beside our builders, executor and formulas, on real ranks; traces are read exactly."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shardlab.pipeline_parallel.builders import dualpipe, interleaved, one_f_one_b, zb_h1
from shardlab.pipeline_parallel.simulation import simulate
from shardlab.pipeline_parallel.traces import to_trace

LAB = Path(__file__).parents[2] / "labs" / "lab02-megatron"
sys.path.insert(0, str(LAB))
import analyze_timeline  # noqa: E402
import run_pp_experiment  # noqa: E402
from start import import_megatron  # noqa: E402

needs_megatron = pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core is built for neither"
)


def lab(name, *options, launcher=(sys.executable,)):
    typed = [*launcher, str(LAB / name), *map(str, options)]
    return subprocess.run(typed, capture_output=True, text=True, check=False, timeout=170)


@pytest.mark.parametrize("name", ["run_tp_experiment.py", "run_pp_experiment.py", "analyze_timeline.py"])
def test_each_program_explains_itself(name):
    done = lab(name, "--help")
    assert done.returncode == 0 and "Options" in done.stdout


@pytest.mark.slow
@needs_megatron
def test_the_environment_is_the_pinned_one():
    assert "Lab 2 needs" in lab("setup_environment.sh", "--help", launcher=("bash",)).stdout
    done = subprocess.run(
        [LAB / "setup_environment.sh"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "HOME": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pin = re.search(r"^megatron-core==(.*)$", (LAB.parents[1] / "constraints.txt").read_text(), re.MULTILINE)
    assert f"megatron-core {pin[1]} on torch" in done.stdout


def rows(text):
    """The lines of a table by their name: the numbers behind it."""
    found = re.findall(r"^(.+?)\s{2,}((?:[\d.]+%?\s*)+)$", text, re.MULTILINE)
    return {name.strip(): [float(number.rstrip("%")) for number in numbers.split()] for name, numbers in found}


@needs_megatron
@pytest.mark.slow  # each rank imports Megatron
@pytest.mark.parametrize(("ranks", "by_torchrun"), [(3, False), (2, True)])
def test_megatrons_tensor_parallel_layers_send_what_the_formula_says(ranks, by_torchrun):
    torchrun = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}") if by_torchrun else ()
    sizes = ("--ranks", ranks, "--tokens", 9, "--hidden", 12)
    done = lab("run_tp_experiment.py", *sizes, launcher=(sys.executable, *torchrun))
    found = rows(done.stdout)
    payload = 4 * 9 * 12
    assert found["all-reduces"] == [2, 2]
    assert found["bytes sent by a rank"] == [2 * 2 * (ranks - 1) / ranks * payload] * 2
    assert found["parameters on a rank"][0] == found["parameters on a rank"][1]
    assert float(done.stdout.split("one rank: ")[1].split()[0]) < 1e-5


@needs_megatron
@pytest.mark.slow
def test_a_profile_of_the_tensor_parallel_step_is_read(tmp_path):
    assert lab("run_tp_experiment.py", "--profile", tmp_path).returncode == 0
    lanes = analyze_timeline.read_traces(sorted(tmp_path.iterdir()))
    assert sorted(lanes) == [0, 1]
    for lane in lanes.values():
        assert len(lane.communicating) == 2 and lane.computing
        assert analyze_timeline.seconds(lane.exposed) <= analyze_timeline.seconds(lane.communicating)


def test_a_width_that_does_not_split_is_refused():
    assert "choose a divisor" in lab("run_tp_experiment.py", "--ranks", 3, "--hidden", 16).stderr


@needs_megatron
@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "microbatches", "chunks"), [(2, 3, 1), (3, 6, 2)])
def test_megatrons_pipeline_runs_our_order_to_our_gradients(tmp_path, ranks, microbatches, chunks):
    sizes = ("--ranks", ranks, "--microbatches", microbatches, "--chunks", chunks)
    done = lab("run_pp_experiment.py", *sizes, "--hidden", 8, "--trace", tmp_path / "ours.json")
    assert f"{ranks} of {ranks} as executed, {ranks} of {ranks} as planned" in done.stdout, done.stderr
    for rank in range(ranks):
        predicted, ours, megatrons = rows(done.stdout)[f"rank {rank}"]
        assert predicted == ours == megatrons > 0
    assert float(done.stdout.split("to Megatron's: ")[1].split()[0]) < 1e-7
    assert sorted(analyze_timeline.read_traces([tmp_path / "ours.json"])) == list(range(ranks))


@needs_megatron
def test_megatron_plans_our_orders_at_many_sizes(monkeypatch):
    import_megatron()
    from megatron.core import parallel_state

    for ranks in (2, 3, 4):
        monkeypatch.setattr(run_pp_experiment.dist, "get_world_size", lambda ranks=ranks: ranks)
        monkeypatch.setattr(parallel_state, "get_pipeline_model_parallel_world_size", lambda ranks=ranks: ranks)
        for chunks in (1, 2, 3):
            virtual = chunks if chunks > 1 else None
            monkeypatch.setattr(
                parallel_state, "get_virtual_pipeline_model_parallel_world_size", lambda virtual=virtual: virtual
            )
            for microbatches in (ranks, 2 * ranks, 5 * ranks):
                schedule = one_f_one_b(ranks, microbatches)
                if chunks > 1:
                    schedule = interleaved(ranks, microbatches, chunks)
                for rank in range(ranks):
                    monkeypatch.setattr(parallel_state, "get_pipeline_model_parallel_rank", lambda rank=rank: rank)
                    planned = run_pp_experiment.megatron_plan(run_pp_experiment.Sizes(microbatches, chunks, 8))
                    assert planned == run_pp_experiment.in_chunks(schedule, rank)


def profile_of(rank, events):
    boxes = [{"ph": "X", "cat": cat, "name": name, "ts": 1e3 * ts, "dur": 1e3 * dur} for cat, name, ts, dur in events]
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": boxes}


def test_exposed_communication_is_what_no_computation_covers(tmp_path):
    on_cpu = profile_of(0, [("cpu_op", "aten::mm", 0, 40), ("user_annotation", "gloo:all_reduce", 30, 30)])
    on_gpu = profile_of(
        1,
        [
            ("cpu_op", "aten::mm", 0, 500),  # only launches: the kernels count
            ("kernel", "ampere_gemm", 0, 10),
            ("kernel", "ampere_gemm", 5, 20),
            ("kernel", "ncclDevKernel_AllReduce", 20, 80),
            ("kernel", "ampere_gemm", 50, 10),
        ],
    )
    files = [tmp_path / f"{rank}.json" for rank in range(2)]
    for file, trace in zip(files, (on_cpu, on_gpu), strict=True):
        file.write_text(json.dumps(trace))
    lanes = analyze_timeline.read_traces(files)
    assert lanes[0].exposed == [(40e3, 60e3)]
    assert lanes[1].computing == [(0, 25e3), (50e3, 60e3)]
    assert lanes[1].exposed == [(25e3, 50e3), (60e3, 100e3)]

    done = lab("analyze_timeline.py", *files, "--figure", tmp_path / "f.png", "--perfetto", tmp_path / "p.json")
    assert rows(done.stdout)["rank 1"] == [35, 65, 0, 65]
    assert (tmp_path / "f.png").read_bytes()[:4] == b"\x89PNG"
    tracks = [e for e in json.loads((tmp_path / "p.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert {event["name"] for event in tracks} == {"computing", "communicating", "exposed"}


@pytest.mark.parametrize("schedule", [zb_h1(4, 8), one_f_one_b(3, 5), dualpipe(4, 8)])
def test_a_simulated_trace_is_predicted_to_itself(tmp_path, schedule):
    file, timeline = tmp_path / "trace.json", simulate(schedule)
    file.write_text(to_trace(timeline, seconds_per_unit=1e-3))
    lanes = analyze_timeline.read_traces([file])
    clock = analyze_timeline.predicted(analyze_timeline.measured(lanes))
    assert clock.makespan == pytest.approx(timeline.makespan)  # milliseconds
    assert clock.bubble == pytest.approx(timeline.bubble)
    for lane, busy in zip(lanes.values(), timeline.busy, strict=True):
        assert analyze_timeline.seconds(lane.computing) == pytest.approx(busy * 1e-3)


def test_files_that_are_no_traces_are_named(tmp_path):
    file = tmp_path / "notes.json"
    file.write_text("[1, 2")
    with pytest.raises(ValueError, match=r"notes\.json is no trace"):
        analyze_timeline.read_traces([file])
    file.write_text(to_trace(simulate(zb_h1(2, 2))))
    with pytest.raises(ValueError, match="rank 0, which another file has too"):
        analyze_timeline.read_traces([file, file])
    file.write_text('{"traceEvents": []}')
    with pytest.raises(ValueError, match="nothing computes"):
        analyze_timeline.read_traces([file])
