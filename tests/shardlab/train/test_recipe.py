"""A recipe is either accepted or refused in one sentence that names key, value and what would work."""

import subprocess
import sys

import pytest
from shardlab.train import from_tables, parse, read
from shardlab.train.recipe import FOLDER, SECTIONS, check_batch, mesh_of, mesh_ranks, on_ranks, to_tables
from shardlab.train.sections import SCHEDULES

from tests.shardlab.train.small import TABLES, recipe

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
