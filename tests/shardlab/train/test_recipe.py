"""Recipes, and plans that are trained."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from shardlab.commands.cli import app
from shardlab.commands.plan import run_plan
from shardlab.costs.layout import Layout
from shardlab.costs.machines import as_accelerator, as_trained
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.planner import Plan, Search, memory_of, plan, seconds_of
from shardlab.train import build, from_tables, parse, read
from shardlab.train.planned import WARM_UP, Beside, beside, recipe_of, table, to_toml
from shardlab.train.recipe import FOLDER, SECTIONS, check_batch, mesh_of, mesh_ranks, on_ranks, to_tables
from shardlab.train.sections import SCHEDULES
from typer.testing import CliRunner

from tests.shardlab.train.small import TABLES, recipe

# ---- A recipe is either accepted or refused in one sentence that names key, value and what would work. ---------------

GOOD = """
[model]
layers = 4
hidden = 64
heads = 4
sequence = 32
[step]
batch = 16
microbatches = 4
[run]
steps = 100
"""
REFUSED = {
    "mesh.tp=two": "mesh.tp = 'two' is not a whole number: give a whole number, 1 or more",
    "mesh.tp=0": "mesh.tp = 0: use 1 or more",
    "mesh.tp=true": "mesh.tp = True is not a whole number",
    "mesh.tq=2": "mesh.tq = 2: there is no key 'tq' here; use one of cp, dp, ep, etp, pp, replicas, tp; did you mean",
    "mesh.colour=2": "mesh.colour = 2: there is no key 'colour' here; use one of cp, dp, ep, etp, pp, replicas, tp",
    "mash.tp=2": "run, checkpoints, log, survival; did you mean mesh?",
    "model.dropout=1.5": "model.dropout = 1.5: use 0 to 0.9",
    "model.rope=1": "model.rope = 1 is not true or false: give true or false",
    "model.heads=5": "model.heads = 5 does not divide model.hidden = 64: use one of [1, 2, 4, 8]",
    "model.kv_heads=3": "model.kv_heads = 3 does not divide model.heads = 4: use one of [1, 2, 4]",
    "model.vocabulary=100": "model.vocabulary = 100: use 256 or more",
    "step.schedule=1f1": "step.schedule = '1f1': use one of 1f1b, gpipe, interleaved",
    "step.schedule=gpip": "did you mean gpipe?",
    "step.schedule=dualpipe": "did you mean dualpipe-v?",
    "step.zero=4": "step.zero = 4: use one of 0, 1, 2, 3",
    "step.dtype=float16": "step.dtype = 'float16': use one of float32, bfloat16, float64",
    "step.batch=10": "step.batch = 10 cannot be divided among 1 replicas (mesh.dp) with 4 microbatches each: "
    "use a multiple of 4, such as 8 or 12",
    "step.batch=2": "use a multiple of 4, such as 4",
    "mesh.replicas=2": "mesh.replicas = 2 needs sharded states, and step.zero = 0 has none: use step.zero = 1, 2 or 3",
    "mesh.ep=2": "mesh.ep = 2 but the model has no experts: use 1, or give experts.experts",
    "lr.warmup=101": "lr.warmup = 101 is longer than run.steps = 100: use 0 to 100",
    "rate.peak=0.01": "[rate] is now called [lr]: write [lr]",
    "lr.shape=linear": "lr.shape = 'linear': use one of cosine, constant",
    "optimizer.name=adam": "optimizer.name = 'adam': use one of adamw, sgd; did you mean adamw?",
    "checkpoints.every=5": "checkpoints.every = 5 needs a folder: give checkpoints.folder or run.folder",
    "survival.on_lost_rank=restart": "'restart' needs a checkpoint to continue from, but checkpoints.every = 0",
    "survival.patience=0": "survival.patience = 0: use 1 to 3600",
    "run.steps=nan": "run.steps = nan is not a whole number",
    "log.peak_flops=-1": "log.peak_flops = -1: use 0 or more",
    "run.steps": "--set 'run.steps' sets nothing: write section.key=value",
    "steps=5": "--set 'steps=5' sets nothing: write section.key=value",
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_does_not_work_is_refused_in_a_sentence(change):
    with pytest.raises(ValueError, match=r"use|give|write|mean") as caught:
        on = parse(GOOD, [change])
        check_batch(on, mesh_of(on, mesh_ranks(on)))
    assert REFUSED[change] in str(caught.value)


def test_pairs_that_contradict_each_other():
    with pytest.raises(ValueError, match=r"experts.active = 3 is more than experts.experts = 2: use 1 to 2"):
        parse(GOOD, ["experts.experts=2", "experts.active=3"])
    with pytest.raises(ValueError, match=r"an even model.hidden / model.heads"):
        parse(GOOD, ["model.rope=true", "model.hidden=12"])
    with pytest.raises(ValueError, match="cannot be divided among 3 replicas"):
        parse(GOOD, ["mesh.dp=3"])


def test_sections_and_keys_that_are_missing():
    with pytest.raises(ValueError, match=r"step.batch is missing: give a whole number, 1 or more"):
        parse(GOOD.replace("batch = 16", ""))
    with pytest.raises(ValueError, match=r"run.steps is missing"):
        parse(GOOD.replace("[run]\nsteps = 100", ""))
    with pytest.raises(ValueError, match="this is not valid TOML"):
        parse("[model")
    with pytest.raises(ValueError, match=r"mesh = 3 is not a table: write \[mesh\]"):
        parse("mesh = 3\n" + GOOD)


def test_a_mesh_fits_its_ranks_or_says_which_would():
    with_dp = parse(GOOD, ["mesh.dp=2", "mesh.tp=2"])
    with pytest.raises(ValueError, match=r"2 \* 1 \* 1 \* 2 = 4 ranks, but there are 6: start 4, or leave mesh.dp out"):
        mesh_of(with_dp, 6)
    without = parse(GOOD, ["mesh.tp=2"])
    assert mesh_of(without, 8).dp == 4 and on_ranks(without, 8).mesh.dp == 4
    with pytest.raises(ValueError, match="use 2 ranks"):
        mesh_of(without, 3)


def test_a_recipe_that_is_not_there():
    with pytest.raises(ValueError, match=r"no .toml file .*use one of experts, five-axes, one-rank, three-axes"):
        read("six-axes")
    with pytest.raises(ValueError, match=r"one-rank.toml: mesh.tp = 0"):
        read("one-rank", ["mesh.tp=0"])


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.toml")))
def test_ready_recipes_can_be_built(name):
    from shardlab.train.build import check

    one = read(name)
    ranks = {"one-rank": 1, "three-axes": 8, "five-axes": 8, "experts": 4}[name]
    check(one, ranks)
    assert mesh_ranks(one) == ranks
    if name == "five-axes":
        check(one, 16)
        assert mesh_of(one, 16).dp == 2


def test_a_recipe_as_plain_data_is_the_recipe():
    one = recipe({"tp": 2}, step={"zero": 1})
    assert from_tables(to_tables(one)) == one
    assert {*SECTIONS} == {*to_tables(one)} and {*TABLES} <= {*SECTIONS}


def test_every_schedule_of_a_recipe_exists():
    from shardlab.pipeline_parallel.builders import BUILDERS

    assert {*SCHEDULES} == BUILDERS.keys() - {"dualpipe"}  # dualpipe places stages twice


def test_reading_loads_no_torch():
    program = "import shardlab.train.recipe as r, sys; r.read('one-rank'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ---- The planner's layouts as recipes, and a plan that is trained unchanged. -----------------------------------------

SMALL = Transformer("small", 4, 64, 4, 4, 256, 256, 64, bias=True, tied=True, positions=64, norm_vectors=4)
MIXED = replace(SMALL, experts=4, active_experts=2, expert_ffn=32, shared_experts=1, gated=True)


@pytest.mark.parametrize("model", [SMALL, MIXED], ids=["dense", "experts"])
def test_plans_are_recipes_that_can_be_built(calibration, tmp_path, model):
    search = Search(virtual=(1, 2), least_sequence_for_cp=64, max_cp=2, microbatches=(1, 2))
    found = plan(model, as_accelerator(calibration), 4, 16, search=search, best=60)
    layouts = {one.layout for one in found}
    assert len(layouts) > 20 and {one.pp for one in layouts} >= {1, 2} and {one.cp for one in layouts} == {1, 2}
    for one in layouts:
        if one.virtual in (1, 2):
            made = recipe_of(model, one, steps=8, folder=tmp_path)
            assert build.settings_of(made).num_microbatches == one.num_microbatches
            assert made.step.batch == 16 and made.mesh.tp == one.tp and made.mesh.dp == one.dp
            again = build.transformer_of(made)
            assert replace(again, name=model.name, ffn=model.ffn) == model


REFUSED_PLANNED = {
    "ffn = 172, but the course's GPT 256": replace(SMALL, ffn=172),
    "bias = False, but the course's GPT True": replace(SMALL, bias=False),
    "norm_vectors = 2, but the course's GPT 4": replace(SMALL, norm_vectors=2),
    "head_dim = 32, but the course's GPT 16": replace(SMALL, head_dim=32),
    "a vocabulary of 100 is too small, because tokens are bytes: use 256": replace(SMALL, vocab=100),
    "dense_layers = 1": replace(MIXED, dense_layers=1),
}


@pytest.mark.parametrize("sentence", REFUSED_PLANNED)
def test_models_that_the_courses_gpt_is_not(sentence, tmp_path):
    with pytest.raises(ValueError, match="this plan cannot be run") as caught:
        recipe_of(REFUSED_PLANNED[sentence], Layout(), steps=8, folder=tmp_path)
    assert sentence in str(caught.value)


def test_chunks_that_no_schedule_makes(tmp_path):
    with pytest.raises(ValueError, match="it has 4 chunks per stage"):
        recipe_of(SMALL, Layout(pp=2, virtual=4, num_microbatches=4), steps=8, folder=tmp_path)


def test_a_recipe_as_toml_is_the_recipe():
    one = recipe({"tp": 2}, step={"zero": 1}, run={"folder": 'a "folder"\\with signs'})
    assert parse(to_toml(one)) == one == from_tables(to_tables(one))


def test_what_was_measured_beside_what_was_said(tmp_path, calibration):
    one = plan(SMALL, as_accelerator(calibration), 2, 8, best=1)[0]
    with pytest.raises(ValueError, match="recorded no measurement: give it 5 steps or more"):
        beside(one, SMALL, tmp_path)
    sent = [{"sent": {"dp": 5.0}, "peak": 7}, {"sent": {"dp": 6.0, "tp": 1.0}, "peak": 3}]
    rows = [{"step": step, "loss": 1.0, "seconds": float(step)} for step in range(1, 8)]
    lines = [*rows, {"measured": sent, "names": {"dp-cp": "dp", "ep": "ep"}}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = {row.what: row for row in beside(one, SMALL, tmp_path)}
    assert found["step"].measured == 6.0 and WARM_UP + 2 == 4  # the median of steps 5, 6, 7
    assert found["memory of the fullest rank"].measured == 7 and found["sent on dp"].measured == 6.0
    assert found["step"].predicted == one.step.total
    assert table([Beside("step", "s", 2.0, 1.0), Beside("x", "bytes", 0, 1)])[1].endswith("0.50")


@pytest.mark.slow
def test_a_plan_is_trained_as_it_is(calibration_file, tmp_path):
    sizes = {"layers": 2, "hidden": 32, "heads": 2, "kv_heads": 2, "ffn": 128, "vocab": 256, "sequence": 32}
    path = tmp_path / "small.json"
    path.write_text(json.dumps(sizes | {"bias": True, "tied": True, "positions": 32, "norm_vectors": 4}))
    typed = [
        "plan",
        "--here",
        "--model",
        str(path),
        "--gpus",
        "2",
        "--tokens-per-batch",
        "512",
        "--run",
        "--steps",
        "6",
    ]
    told = CliRunner().invoke(app, [*typed, "--json"], env={"SHARDLAB_CALIBRATION": str(calibration_file)})
    assert told.exit_code == 0, told.output
    rows = {row["what"]: row for row in json.loads(told.stdout)["run"]}
    assert rows["step"]["measured"] > 0
    for what in ("memory of the fullest rank", "sent on dp"):
        assert 0.8 < rows[what]["measured"] / rows[what]["predicted"] < 1.5, rows


LLAMA = replace(SMALL, kv_heads=2, gated=True, tied=False, positions=0, vocab=320)
HELD = {  # memory of the fullest rank
    "the loss": (SMALL, Layout(microbatch=8)),
    "the end of the last microbatch": (SMALL, Layout(num_microbatches=8, dp=2, zero=1)),
    "layers that ZeRO-3 has gathered": (SMALL, Layout(microbatch=4, dp=2, zero=3)),
    "keys and values of a ring": (LLAMA, Layout(microbatch=8, cp=2)),
    "a cut vocabulary": (SMALL, Layout(microbatch=8, tp=2, sequence_parallel=True)),
    "chunks in flight": (LLAMA, Layout(num_microbatches=8, microbatch=2, pp=2, virtual=2)),
    "weight gradients that wait": (SMALL, Layout(num_microbatches=4, microbatch=2, pp=2, schedule="zero-bubble")),
    "a layer that is done again": (LLAMA, Layout(microbatch=8, recompute="full")),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", HELD)
def test_a_plan_in_float32_says_what_its_ranks_will_hold(what, calibration):
    model, layout = HELD[what]
    here = as_accelerator(calibration, ranks=layout.world)
    model = as_trained(model, here)
    planned = Plan(layout, memory_of(model, layout), seconds_of(model, layout, here))
    found = {row.what: row for row in run_plan(planned, model, steps=6, quiet=True)}
    held = found["memory of the fullest rank"]
    assert held.measured == pytest.approx(held.predicted, rel=0.05), what
