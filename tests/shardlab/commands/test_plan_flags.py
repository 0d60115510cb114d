"""Framework flags: the fields exist in the installed Megatron, its layout letters parse, and gaps are reported."""

import dataclasses

import pytest
from shardlab.commands.plan_flags import MEGATRON, flags, megatron_layout
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.memory.stage import peak_memory
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.planner import Plan, seconds_of

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
