"""`shardlab schedule`, and the flags that a plan prints."""

import dataclasses
import json

import pytest
import typer
from shardlab.commands.plan_flags import MEGATRON, flags, megatron_layout
from shardlab.commands.schedule import schedule
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.memory.stage import peak_memory
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.planner import Plan, seconds_of
from shardlab.pipeline_parallel.builders import BUILDERS, zbv
from shardlab.pipeline_parallel.traces import to_csv
from typer.testing import CliRunner

# ---- The command prints what the package computes, and its refusals name sizes that work. ----------------------------

app = typer.Typer()
app.command("schedule")(schedule)


def call(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("name", BUILDERS)
def test_json_is_one_object(name):
    result = call(name, "--ranks", "2", "--microbatches", "4", "--json")
    found = json.loads(result.stdout)
    assert len(found["ranks"]) == len(found["idle"]) == len(found["span_idle"]) == len(found["peak_activations"]) == 2
    work = 3 * sum("F" in a for a in found["ranks"][0]) / found["chunks"]
    assert found["makespan"] == pytest.approx(found["idle"][0] + work)
    assert work == 12  # 4 microbatches through all layers of a rank, whatever the schedule
    assert len(found["peak_activations_until_w"]) == 2


def test_the_text_names_bubble_and_memory():
    result = call("1f1b", "--ranks", "4", "--microbatches", "8")
    assert "rank 3: 3F0 3B0 3F1 3B1" in result.stdout
    assert "makespan 33; a rank is idle for up to 9, 27.3% of it" in result.stdout
    assert "peak activations, freed after I: 4 3 2 1" in result.stdout
    assert "unit: all layers of a rank, F = I = W = 1, B = 2\n" in result.stdout


def test_lengths_and_activations_of_all_schedules_compare():
    """ZBV has half of the layers in each of its two chunks, so 51 of its slots equal 25.5 slots of 1F1B."""
    made = {name: json.loads(call(name, "--json").stdout) for name in ("1f1b", "zb-h1", "zb-h2", "zbv", "v-half")}
    assert {name: one["makespan"] for name, one in made.items()} == {
        "1f1b": 33,
        "zb-h1": 27,
        "zb-h2": 27,
        "zbv": 25.5,
        "v-half": 26.5,
    }
    assert made["zbv"]["peak_activations"] == [4, 4, 4, 4] and made["zbv"]["chunks"] == 2
    assert made["zb-h1"]["peak_activations_until_w"] == [4, 4, 4, 4] != made["zb-h1"]["peak_activations"]
    text = call("zbv").stdout
    assert "makespan 25.5; a rank is idle for up to 1.5, 5.9% of it" in text and "2 chunks takes and holds 1/2" in text


def test_chunks_are_chosen_for_interleaved_alone():
    chunks = [json.loads(call("interleaved", *more, "--json").stdout)["chunks"] for more in ([], ["--virtual", "4"])]
    assert chunks == [2, 4]
    for name in set(BUILDERS) - {"interleaved"}:
        assert call(name, "--virtual", "2").exit_code == 2


def test_files_have_the_units_of_the_text(tmp_path):
    assert call("zbv", "--trace", str(tmp_path / "zbv.json")).exit_code == 0
    events = [one for one in json.loads((tmp_path / "zbv.json").read_text())["traceEvents"] if one["ph"] == "X"]
    assert max(one["ts"] + one["dur"] for one in events) == pytest.approx(25.5e3)
    assert "simulated time 25.5" in call("zbv", "--figure", str(tmp_path / "zbv.png")).stderr


def test_files(tmp_path):
    files = {kind: tmp_path / f"zbv.{kind}" for kind in ("csv", "trace", "figure")}
    options = [part for kind, path in files.items() for part in (f"--{kind}", str(path))]
    assert call("zbv", *options).exit_code == 0
    assert files["csv"].read_text() == to_csv(zbv(4, 8))
    assert json.loads(files["trace"].read_text())["traceEvents"]
    assert files["figure"].read_bytes().startswith(b"\x89PNG")
    assert call("zbv", "--csv", "-").stdout == to_csv(zbv(4, 8))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chimera"], "there is no schedule 'chimera'"),
        (["dualpipe", "--microbatches", "9"], "use 8 or 10"),
        (["interleaved", "--virtual", "1"], "use 2 or more, or 1f1b"),
        (["zbv", "--virtual", "3"], "remove --virtual, or use the schedule interleaved"),
        (["gpipe", "--ranks", "0"], "use 1 or more"),
    ],
)
def test_what_does_not_work_is_said_in_a_sentence(arguments, words):
    result = call(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", "").split())


# ---- Framework flags: the fields exist in the installed Megatron, its layout letters parse, and gaps are reported. ---

H100 = ACCELERATORS["h100"]
# flags of the training program, not of the configuration classes
OF_THE_PROGRAM = {
    "micro_batch_size", "global_batch_size", "seq_length", "use_distributed_optimizer", "use_megatron_fsdp",
    "accumulate_allreduce_grads_in_fp32", "fp8_format",
}  # fmt: skip


def planned(name, cut=(), **sizes):
    model, layout = ZOO[name], Layout(**sizes)
    return model, Plan(layout, peak_memory(model, layout), seconds_of(model, layout, H100), cut)


CASES = {
    "chunks": planned("llama3-405b", (0, *[1] * 126, 0), tp=8, pp=16, dp=128, virtual=8, num_microbatches=16, zero=1),
    "experts": planned("deepseek-v3", dp=64, ep=64, zero=1, recompute="norms"),
    "some layers": planned("llama3-70b", (20,) * 4, pp=4, num_microbatches=8, recompute="full", recomputed=(3, 20)),
    "sharded": planned("llama3-8b", dp=8, cp=2, zero=3, context="gathered"),
}


@pytest.mark.parametrize("case", CASES)
def test_megatrons_flags_are_fields_of_the_installed_one(case):
    pytest.importorskip("megatron.core")
    from importlib.metadata import version

    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.transformer.transformer_config import TransformerConfig

    assert f"megatron-core {version('megatron-core')}" == MEGATRON
    known = {
        field.name for cls in (TransformerConfig, DistributedDataParallelConfig) for field in dataclasses.fields(cls)
    }
    found = flags("megatron", *CASES[case])["flags"]
    names = {flag.split()[0].removeprefix("--").replace("-", "_") for flag in found}
    assert names - known <= OF_THE_PROGRAM and len(names) == len(found)


@pytest.mark.parametrize("cut", [(0, *[1] * 126, 0), (3, 2, 2, 3), (8, 7), (2, 1, 1, 2, 2, 1)])
def test_megatron_reads_the_letters_as_the_cut(cut):
    layout = pytest.importorskip("megatron.core.transformer.pipeline_parallel_layer_layout")
    read = layout.PipelineParallelLayerLayout.parse_str_to_list(megatron_layout(cut))
    assert [sum(kind.name == "decoder" for kind in chunk) for chunk in read] == list(cut)
    assert read[0][0].name == "embedding" and read[-1][-1].name == "loss"


def test_torchtitans_stages_begin_where_the_cut_says():
    found = flags("torchtitan", *CASES["chunks"])["flags"]
    points = next(flag.split()[1] for flag in found if "split_points" in flag).split(",")
    assert points == [*(f"layers.{layer}" for layer in range(126)), "norm"]
    assert "--parallelism.pipeline_parallel_schedule Interleaved1F1B" in found


@pytest.mark.parametrize(
    ("framework", "sizes", "sentence"),
    [
        ("megatron", {"pp": 4, "num_microbatches": 8, "schedule": "dualpipe"}, "--schedule 1f1b"),
        ("megatron", {"pp": 4, "dp": 2, "num_microbatches": 8, "zero": 2}, "--pipeline-zero 1"),
        ("megatron", {"recompute": "norms"}, "--recompute none --recompute full"),
        ("torchtitan", {"recompute": "norms"}, "--recompute none"),
        ("torchtitan", {"cp": 2, "context": "ulysses"}, "--cp 1"),
        ("torchtitan", {"pp": 4, "num_microbatches": 8, "schedule": "dualpipe"}, "--schedule zbv"),
        ("nanotron", {}, "use megatron or torchtitan"),
    ],
)
def test_what_a_framework_cannot_do(framework, sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        flags(framework, *planned("llama2-7b", (8,) * sizes.get("pp", 0), **sizes))
