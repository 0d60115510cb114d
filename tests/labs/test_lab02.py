"""Lab 2: the real megatron-core vs. our builders, executor and formulas, on real ranks; traces are read exactly."""

import json
import math
import os
import re
import subprocess
import sys
from functools import cache
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
    sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core needs Linux and Python < 3.14"
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
def test_the_environment_is_the_pinned_one_and_stays_so():
    assert "Lab 2 needs" in lab("setup_environment.sh", "--help", launcher=("bash",)).stdout
    surroundings = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "HOME": "/tmp"}
    told = []
    for _ in range(2):
        done = subprocess.run(
            [LAB / "setup_environment.sh"], env=surroundings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    pin = re.search(r"^megatron-core==(.*)$", (LAB.parents[1] / "constraints.txt").read_text(), re.MULTILINE)
    assert "found: Python" in told[0] and f"ready: megatron-core {pin[1]} on torch" in told[0]
    assert "nothing to install" in told[1]
    assert told[0] == told[1]


def fake_python(folder, installed):
    """A Python that has these packages, imports anything, and records what pip should install."""
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *freeze*) echo \'{installed}\';; *install*) echo "$*" >> {folder}/installs;; esac\n'
    )
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("installed", ["megatron-core==0.1.0", "torch==2.13.0"])
def test_what_is_missing_is_installed_at_the_pin_without_another_torch(tmp_path, installed):
    surroundings = {"PATH": "/usr/bin:/bin", "PYTHON": str(fake_python(tmp_path, installed)), "HOME": "/tmp"}
    done = subprocess.run([LAB / "setup_environment.sh"], env=surroundings, capture_output=True, text=True, check=True)
    wanted = re.search(r"^megatron-core==.*$", (LAB.parents[1] / "constraints.txt").read_text(), re.MULTILINE)[0]
    installs = (tmp_path / "installs").read_text().splitlines()
    assert len(installs) == 1 and "--no-deps" in installs[0] and installs[0].endswith(wanted)
    assert f"installing {wanted}" in done.stdout and (installed in done.stdout or "no megatron-core" in done.stdout)


def test_without_a_python_the_setup_says_what_to_do():
    surroundings = {"PATH": "/usr/bin:/bin", "PYTHON": "no-such-python", "HOME": "/tmp"}
    done = subprocess.run([LAB / "setup_environment.sh"], env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "run `make setup` first, or set PYTHON" in done.stdout


def rows(text):
    """Return the rows of a table: {name: numbers}."""
    found = re.findall(r"^(.+?)\s{2,}((?:[\d.]+%?\s*)+)$", text, re.MULTILINE)
    return {name.strip(): [float(number.rstrip("%")) for number in numbers.split()] for name, numbers in found}


TINY = ("--hidden", 16, "--sequence", 8, "--vocabulary", 16)


@cache
def compared(*options, launcher=(sys.executable,)):
    """Return the JSON output of the tensor-parallel program."""
    done = lab("run_tp_experiment.py", *TINY, *options, "--json", launcher=launcher)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def calls(messages):
    return [(one["phase"], one["kind"], one["payload_bytes"]) for one in messages]


SEQUENCE, TWO, FOUR = "--sequence-parallel", ("--ranks", 2), ("--ranks", 4)
SETTINGS = {
    "TP": (*TWO,),
    "SP": (*TWO, SEQUENCE),
    "full recompute": (*TWO, "--recompute", "full", "--layers", 2),
    "SP, selective": (*TWO, SEQUENCE, "--recompute", "selective", "--gated", "--kv-heads", 2),
    "four ranks, SP": (*FOUR, SEQUENCE, "--gated", "--microbatch", 1),
}


@needs_megatron
@pytest.mark.slow  # each rank imports Megatron
@pytest.mark.parametrize("setting", SETTINGS)
def test_megatron_computes_and_sends_what_ours_does(setting):
    found = compared(*SETTINGS[setting])
    for name, part in found["parts"].items():
        for other in ("to_megatron", "to_one_process"):
            assert max(part[other].values()) < 1e-5, (name, other)
        assert part["our_bytes"] == part["predicted_bytes"]
    for name in ("layers", "blocks"):  # the same messages, in the same order
        part = found["parts"][name]
        assert calls(part["megatron"]) == calls(part["ours"]) and part["our_bytes"] == part["megatron_bytes"]
    gradients = found["parts"]["model"]["to_megatron"]
    assert {"outputs", "token.weight", "position.weight", "blocks.0.attention.qkv.bias", "norm.bias"} <= set(gradients)


@needs_megatron
@pytest.mark.slow
def test_a_model_has_megatrons_messages_but_for_what_is_sent_together():
    part = compared(*SETTINGS["TP"])["parts"]["model"]
    assert part["our_bytes"] == part["megatron_bytes"]
    megatrons, ours = calls(part["megatron"]), calls(part["ours"])
    tokens = 4 * 2 * 8
    apart = [("forward", "all_reduce", tokens)] * 2
    place = megatrons.index(apart[0]) + 1  # after the largest logit
    assert megatrons[place : place + 2] == apart
    assert [*megatrons[:place], ("forward", "all_reduce", 2 * tokens), *megatrons[place + 2 :]] == ours


@needs_megatron
@pytest.mark.slow
def test_with_a_split_sequence_the_embeddings_are_summed_in_another_way():
    part = compared(*SETTINGS["four ranks, SP"])["parts"]["model"]
    assert (calls(part["megatron"])[0][1], calls(part["ours"])[0][1]) == ("all_reduce", "reduce_scatter")
    activation, positions = 4 * 1 * 8 * 16, 4 * 8 * 16
    ours_more = 3 / 4 * (2 * positions - activation)
    assert part["our_bytes"] - part["megatron_bytes"] == ours_more


@needs_megatron
@pytest.mark.slow
def test_few_kv_heads_cost_megatron_a_gather_and_us_a_sum():
    part = compared(*TWO, "--kv-heads", 1)["parts"]["blocks"]
    assert max(part["to_megatron"].values()) < 1e-5
    assert {"all_gather", "reduce_scatter"} <= {kind for _, kind, _ in calls(part["megatron"])}
    assert calls(part["ours"])[-1] == ("finish", "all_reduce", 4 * 2 * 4 * (16 + 1))
    assert part["our_bytes"] == part["predicted_bytes"]


@needs_megatron
@pytest.mark.slow
def test_each_message_has_a_line_a_function_and_a_module():
    from megatron import core

    for name in ("TP", "SP", "full recompute"):
        part = compared(*SETTINGS[name])["parts"]["blocks"]
        for side, folder in (("megatron", Path(core.__path__[0])), ("ours", LAB.parent / "shardlab")):
            for message in part[side]:
                place, function, *module = message["source"].split(", ")
                file, _, line = place.partition(":")
                texts = [path.read_text().splitlines() for path in folder.rglob(file)]
                near = [text[max(0, int(line) - 4) : int(line) + 3] for text in texts if len(text) >= int(line)]
                assert any(re.search("all_reduce|gather|reduce_scatter", " ".join(lines)) for lines in near), place
                if message["phase"] == "forward":
                    assert module and function
    rows_of = [message["source"] for message in compared(*SETTINGS["TP"])["parts"]["blocks"]["megatron"]]
    assert [source.rpartition(".")[2] for source in rows_of] == [
        "linear_proj",
        "linear_fc2",
        "linear_fc1",
        "linear_qkv",
    ]


@needs_megatron
@pytest.mark.slow
@pytest.mark.parametrize("setting", ["TP", "four ranks, SP"])
def test_two_mistakes_of_the_installed_version_are_shown(setting):
    found = compared(*SETTINGS[setting])
    by_rank, size = found["bugs"], found["ranks"]
    assert len({bug["megatron_smoothed"][1] for bug in by_rank}) == size
    assert all(bug["our_smoothed"][1] == pytest.approx(bug["our_smoothed"][0], abs=1e-6) for bug in by_rank)
    for bug in by_rank:
        whole, gathered = bug["megatron_gathered"]
        assert gathered - whole == pytest.approx(math.log(size), abs=1e-5)
        assert "not gathered" in bug["our_refusal"]


@needs_megatron
@pytest.mark.slow
def test_on_one_rank_nothing_is_sent_and_neither_mistake_shows():
    found = compared("--ranks", 1)
    for part in found["parts"].values():
        assert part["our_bytes"] == part["predicted_bytes"] == 0 and max(part["to_megatron"].values()) < 1e-5
    (bug,) = found["bugs"]
    for whole, split in (bug["megatron_smoothed"], bug["our_smoothed"], bug["megatron_gathered"]):
        assert split == pytest.approx(whole, abs=1e-6)


@needs_megatron
@pytest.mark.slow
def test_under_torchrun_rank_0_prints_tables_and_reads_a_profile(tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    options = ("--messages-of", "layers", "--profile", tmp_path)
    done = lab("run_tp_experiment.py", *TINY, *options, launcher=torchrun)
    assert done.stdout.count("t = 2: weights are split") == 1, done.stderr
    for words in ("Where are the communications injected?", "mappings.py:", "operators.py:", "log 2 = 0.693147"):
        assert words in done.stdout
    lanes = analyze_timeline.read_traces(sorted(tmp_path.glob("layers-*")))
    assert sorted(lanes) == [0, 1]
    for lane in lanes.values():
        assert len(lane.communicating) == 2 and lane.computing
        assert analyze_timeline.seconds(lane.exposed) <= analyze_timeline.seconds(lane.communicating)


REFUSED = {
    "4 heads cannot be split over 3 ranks: use --ranks from [1, 2, 4]": ("--ranks", 3),
    "a vocabulary of 15 cannot be split over 2 ranks: use one of [14, 16]": ("--vocabulary", 15),
    "a sequence of 7 cannot be split over 2 ranks: use one of [6, 8]": (SEQUENCE, "--sequence", 7),
    "use --ranks 2 or more, or --no-sequence-parallel": (SEQUENCE, "--ranks", 1),
    "4 heads do not divide a hidden size of 18": ("--hidden", 18),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_sizes_that_cannot_be_split_are_refused_before_a_rank_starts(sentence):
    done = lab("run_tp_experiment.py", *REFUSED[sentence])
    told = " ".join(re.sub("[│╭╮╰╯─]", " ", done.stderr).split())
    assert done.returncode == 2 and sentence in told


@needs_megatron
@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "microbatches", "chunks"), [(2, 3, 1), (3, 6, 2), (2, 3, 2)])
def test_megatrons_pipeline_runs_our_order_to_our_gradients(tmp_path, ranks, microbatches, chunks):
    sizes = ("--ranks", ranks, "--microbatches", microbatches, "--chunks", chunks)
    done = lab("run_pp_experiment.py", *sizes, "--hidden", 8, "--trace", tmp_path / "ours.json")
    assert f"{ranks} of {ranks} as executed, {ranks} of {ranks} as planned" in done.stdout, done.stderr
    for rank in range(ranks):
        predicted, ours, megatrons = rows(done.stdout)[f"rank {rank}"]
        assert predicted == ours == megatrons > 0
    assert float(done.stdout.split("from Megatron's gradients: ")[1].split(",")[0]) < 1e-7 and ", equal" in done.stdout
    assert sorted(analyze_timeline.read_traces([tmp_path / "ours.json"])) == list(range(ranks))


@needs_megatron
@pytest.mark.slow
def test_two_ranks_swap_what_a_batch_holds():
    done = lab("run_pp_experiment.py", "--ranks", 2, "--microbatches", 4, "--chunks", 2, "--hidden", 8, "--batched")
    apart = float(done.stdout.split("from Megatron's gradients: ")[1].split(",")[0])
    assert apart > 0.1 and "WRONG, because activations and gradients were swapped" in done.stdout


def test_too_few_microbatches_to_interleave_are_refused_at_once():
    done = lab("run_pp_experiment.py", "--ranks", 4, "--microbatches", 2, "--chunks", 2)
    assert done.returncode == 2 and "--microbatches 4" in done.stderr and "Traceback" not in done.stderr


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


def test_without_megatron_the_program_says_how_to_install_it(tmp_path):
    (tmp_path / "megatron").mkdir()
    (tmp_path / "megatron" / "__init__.py").touch()  # shadows the real one
    done = subprocess.run(
        [sys.executable, LAB / "run_tp_experiment.py"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{LAB.parent}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "labs/lab02-megatron/setup_environment.sh" in done.stderr


def profile_of(rank, events):
    boxes = [{"ph": "X", "cat": cat, "name": name, "ts": 1e3 * ts, "dur": 1e3 * dur} for cat, name, ts, dur in events]
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": boxes}


def test_exposed_communication_is_what_no_computation_covers(tmp_path):
    on_cpu = profile_of(0, [("cpu_op", "aten::mm", 0, 40), ("user_annotation", "gloo:all_reduce", 30, 30)])
    on_gpu = profile_of(
        1,
        [
            ("cpu_op", "aten::mm", 0, 500),  # launches only: kernels are what counts
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
    with pytest.raises(ValueError, match=r"notes\.json is not a trace"):
        analyze_timeline.read_traces([file])
    file.write_text(to_trace(simulate(zb_h1(2, 2))))
    with pytest.raises(ValueError, match="rank 0, which is also in another file"):
        analyze_timeline.read_traces([file, file])
    file.write_text('{"traceEvents": []}')
    with pytest.raises(ValueError, match="no computation in these files"):
        analyze_timeline.read_traces([file])


def test_what_is_not_installed_is_said_with_the_place_that_was_searched(monkeypatch):
    monkeypatch.setitem(sys.modules, "megatron.core", None)
    with pytest.raises(ImportError, match=f"not installed in {re.escape(sys.prefix)}, this Python's environment"):
        import_megatron()
