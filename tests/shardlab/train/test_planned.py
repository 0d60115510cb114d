"""The planner's layouts as recipes, and a plan that is trained unchanged."""

import json
from dataclasses import replace

import pytest
from shardlab.commands.cli import app
from shardlab.commands.plan import run_plan
from shardlab.costs.layout import Layout
from shardlab.costs.machines import as_accelerator, as_trained
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.planner import Plan, Search, memory_of, plan, seconds_of
from shardlab.train import build, from_tables, parse
from shardlab.train.planned import WARM_UP, Beside, beside, recipe_of, table, to_toml
from shardlab.train.recipe import to_tables
from typer.testing import CliRunner

from tests.shardlab.train.small import recipe

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


REFUSED = {
    "ffn = 172, but the course's GPT 256": replace(SMALL, ffn=172),
    "bias = False, but the course's GPT True": replace(SMALL, bias=False),
    "norm_vectors = 2, but the course's GPT 4": replace(SMALL, norm_vectors=2),
    "head_dim = 32, but the course's GPT 16": replace(SMALL, head_dim=32),
    "a vocabulary of 100 is too small, because tokens are bytes: use 256": replace(SMALL, vocab=100),
    "dense_layers = 1": replace(MIXED, dense_layers=1),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_models_that_the_courses_gpt_is_not(sentence, tmp_path):
    with pytest.raises(ValueError, match="this plan cannot be run") as caught:
        recipe_of(REFUSED[sentence], Layout(), steps=8, folder=tmp_path)
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
