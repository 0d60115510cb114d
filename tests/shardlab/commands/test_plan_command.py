"""`shardlab plan`, `memory` and `predict` as typed, with good and bad input."""

import csv
import json
import subprocess
import sys
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shardlab.commands.cli import app
from shardlab.commands.plan import GPU_NAMES
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.planner import usable_bytes
from shardlab.costs.uncertainty import step_interval
from shardlab.costs.validation.published import RUNS
from typer.testing import CliRunner

from tests.fixed_set import WHOLE


def shardlab(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "400", "TERM": "dumb"})


def test_a_plan_as_text_and_as_json():
    typed = ("plan", "--model", "llama2-7b", "--gpus", "16", "--tokens-per-batch", "262144")
    text, data = shardlab(*typed), json.loads(shardlab(*typed, "--json").stdout)
    assert text.exit_code == 0 and "64 sequences of 4096" in text.stdout
    best = data["plans"][0]
    assert best["layout"]["dp"] == 16 and 0.1 < best["mfu"] < 1
    assert best["step_seconds"] == pytest.approx(sum(best["parts"].values()))
    assert f"{best['step_seconds']:.3f}" in text.stdout
    assert data["sequences"] == 64 and data["layers_of_stages"] == [32] and data["doubt"] == ""
    for one in data["neighbours"]:
        assert one["change"] in text.stdout and one["reason"] in text.stdout
        assert not one["fits"] or one["slower"] >= 0


@pytest.mark.slow
def test_all_parts_of_a_step_are_shown():
    typed = ("plan", "--model", "mixtral-8x7b", "--gpu", "h800", "--gpus", "16", "--best", "1", "--json")
    best = json.loads(shardlab(*typed).stdout)["plans"][0]
    shares = {name: seconds / best["step_seconds"] for name, seconds in best["parts"].items() if name != "compute"}
    assert best["waits"].split(", ") == [
        f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda x: -x[1]) if share >= 0.005
    ]


def test_a_plan_with_stages_and_a_doubt():
    typed = ("plan", "--model", "gpt3-175b", "--gpus", "256", "--best", "1")
    text, data = shardlab(*typed).stdout, json.loads(shardlab(*typed, "--json").stdout)
    assert sum(data["layers_of_stages"]) == 96 and "Simulated slot by slot with these" in text
    assert (
        ("Check this before you trust the plan" in text)
        == bool(data["doubt"])
        == (data["plans"][0]["layout"]["tp"] > 8)
    )


def test_the_plans_pipeline_is_played_slot_by_slot():
    typed = ("plan", "--model", "gpt3-175b", "--gpus", "256", "--best", "1")
    text, data = shardlab(*typed).stdout, json.loads(shardlab(*typed, "--json").stdout)
    best = data["plans"][0]
    assert best["layout"]["pp"] > 1 and best["step_seconds"] == data["played_seconds"]
    assert best["chunks"] == data["layers_of_stages"] and sum(best["chunks"]) == 96
    assert best["step_seconds"] == pytest.approx(sum(best["parts"].values()))
    assert f"a step takes {data['played_seconds']:.3f} s" in text
    alone = json.loads(shardlab("plan", "--model", "llama2-7b", "--gpus", "8", "--json").stdout)
    assert alone["played_seconds"] is None


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble"])
def test_only_the_schedules_that_are_asked_for(schedule):
    typed = ("plan", "--model", "gpt-1t", "--gpus", "1024", "--best", "20", "--json", "--schedule", schedule)
    plans = [one["layout"] for one in json.loads(shardlab(*typed).stdout)["plans"]]
    assert {one["schedule"] for one in plans if one["pp"] > 1} == {schedule}
    assert all(one["virtual"] == 1 for one in plans) == (schedule != "1f1b")


@pytest.mark.slow
def test_uneven_experts_take_longer_and_even_ones_are_the_default():
    typed = ("plan", "--model", "mixtral-8x7b", "--gpus", "16", "--best", "1", "--json")
    even, same, uneven = (
        json.loads(shardlab(*typed, *more).stdout) for more in ((), ("--imbalance", "1"), ("--imbalance", "2.5"))
    )
    assert even == same and even["plans"][0]["layout"]["ep"] > 1
    assert uneven["plans"][0]["step_seconds"] > even["plans"][0]["step_seconds"]
    assert uneven["neighbours"] != even["neighbours"]  # their fullest experts are the same
    dense = ("plan", "--model", "llama2-7b", "--gpus", "8")
    assert shardlab(*dense).stdout == shardlab(*dense, "--imbalance", "2").stdout


@pytest.mark.parametrize("wrong", ["0.5", "nan", "inf"])
def test_an_imbalance_that_is_none(wrong):
    failed = shardlab("plan", "--model", "mixtral-8x7b", "--imbalance", wrong)
    assert failed.exit_code == 2 and "use 1.0 for even loads, or more" in failed.output
    assert "busiest expert rank" in shardlab("plan", "--help").output


def test_a_schedule_that_is_none():
    failed = shardlab("plan", "--schedule", "2f2b")
    assert failed.exit_code == 2 and "use one of 1f1b, gpipe, zero-bubble, zbv," in failed.output


@pytest.mark.slow
def test_gradients_may_be_cut_beside_a_pipeline():
    typed = ("plan", "--model", "gpt-1t", "--gpus", "1024", "--best", "50", "--json", "--pipeline-zero")
    for most in (0, 1, 2) if WHOLE else (1,):
        plans = json.loads(shardlab(*typed, str(most)).stdout)["plans"]
        assert max(one["layout"]["zero"] for one in plans if one["layout"]["pp"] > 1) == most


def test_the_memory_of_a_layout():
    held = json.loads(shardlab("memory", "--model", "llama2-7b", "--dp", "8", "--zero", "3", "--json").stdout)
    assert held["optimizer"] == pytest.approx(12 * 6.738e9 / 8, rel=1e-3)
    assert held["total"] == pytest.approx(sum(held.values()) - held["total"], abs=8)
    assert "does not fit" in shardlab("memory", "--model", "llama2-70b").stdout


def test_memory_says_why_18_bytes_and_who_counts_16():
    shown = " ".join(shardlab("memory", "--model", "llama2-7b").stdout.split())
    assert "18 bytes per parameter before ZeRO: weight 2, gradient 4, Adam 12" in shown
    assert "summed over microbatches in fp32" in shown and "memory_calculator.py, the total is 16" in shown


def test_memory_shows_the_rows_that_hold_something():
    shown = shardlab("memory", "--model", "llama2-7b", "--dp", "8").stdout
    assert "buffers" not in shown and "gathered" not in shown and "optimizer" in shown
    assert "gathered by ZeRO-3" in shardlab("memory", "--model", "llama2-7b", "--dp", "8", "--zero", "3").stdout


@pytest.mark.parametrize(
    ("layout", "verdict"),
    [
        (("--dp", "8", "--zero", "1"), "leaves 15.83 GiB"),
        (("--dp", "4", "--zero", "1"), "leaves 6.42 GiB"),
        (("--dp", "2", "--zero", "1"), "GiB too much"),
        (("--dp", "3", "--zero", "1"), "leaves 0.14 GiB, too little"),
    ],
)
def test_what_memory_calls_a_fit_is_what_plan_does(layout, verdict):
    typed = ("memory", "--model", "llama2-7b", *layout)
    shown, total = shardlab(*typed).stdout, json.loads(shardlab(*typed, "--json").stdout)["total"]
    assert verdict in shown
    assert (total <= usable_bytes(ACCELERATORS["h100"])) == (" too " not in shown)


def test_the_help_names_every_accelerator():
    assert set(GPU_NAMES.split()) == {*ACCELERATORS, "here", "FILE"}


def test_wide_numbers_keep_their_columns():
    typed = ("plan", "--gpus", "64", "--tokens-per-batch", "1000000000000", "--best", "2")
    text, data = shardlab(*typed).stdout, json.loads(shardlab(*typed, "--json").stdout)
    header, *rows = [line.split() for line in text.splitlines()[2:5]]
    for row, plan in zip(rows, data["plans"], strict=True):
        shown = dict(zip(header, row, strict=False))
        assert shown["m"] == str(plan["layout"]["num_microbatches"]) and shown["b"] == str(plan["layout"]["microbatch"])
        assert float(shown["seconds"]) == pytest.approx(plan["step_seconds"], abs=1e-3)


@pytest.mark.slow
def test_what_stays_inside_servers_stands_beside_what_leaves_them():
    typed = ("plan", "--model", "llama3-405b", "--gpus", "16384", "--best", "60", "--max-tp", "16")
    text, data = shardlab(*typed).stdout, json.loads(shardlab(*typed, "--json").stdout)
    inside, winner = data["fastest_inside_servers"], data["plans"][0]
    assert winner["layout"]["tp"] > 8 >= inside["layout"]["tp"] and inside["step_seconds"] > winner["step_seconds"]
    assert inside == next(one for one in data["plans"] if one["layout"]["tp"] <= 8)
    assert f"The fastest inside servers: tp 8 pp {inside['layout']['pp']}" in text
    at_home = json.loads(shardlab("plan", "--json").stdout)
    assert at_home["fastest_inside_servers"] == at_home["plans"][0]
    assert "The fastest inside" not in shardlab("plan").stdout


AUTHORS = {"tp": 8, "pp": 16, "dp": 128, "cp": 1}  # of Llama 3 405B on 16,384 H100, arXiv 2407.21783, table 4


@pytest.mark.slow
def test_the_layout_that_llamas_authors_chose_is_the_plan_or_a_tie():
    typed = ("plan", "--model", "llama3-405b", "--gpus", "16384", "--tokens-per-batch", "16777216")
    text, data = shardlab(*typed).stdout, json.loads(shardlab(*typed, "--json").stdout)
    ties = [one for one in data["plans"] if one["tie"]]
    theirs = [one for one in ties if {axis: one["layout"][axis] for axis in AUTHORS} == AUTHORS]
    assert theirs and all(one["layout"]["tp"] <= 8 for one in data["plans"])
    assert theirs[0]["chunks"] == [0, *[1] * 126, 0]  # their split, too: only the ends differ
    low, high = (data["plans"][0][f"step_seconds_{end}"] for end in ("low", "high"))
    assert low < data["plans"][0]["step_seconds"] < high and f"{(high - low) / 2:.2g}" in text
    assert "Measure them before you choose" in text


@pytest.mark.slow
def test_tensor_parallelism_leaves_a_server_only_when_it_is_asked_to():
    typed = ("plan", "--model", "gpt-1t", "--gpus", "1024", "--best", "100", "--json")
    inside, wider = (json.loads(shardlab(*typed, *more).stdout)["plans"] for more in ((), ("--max-tp", "16")))
    assert max(one["layout"]["tp"] for one in inside) <= 8 < max(one["layout"]["tp"] for one in wider)


def test_a_slower_network_is_slower_and_is_given_in_gbit():
    typed = ("plan", "--model", "llama2-7b", "--gpus", "16", "--tokens-per-batch", "262144", "--best", "1", "--json")
    usual, same, slow = (
        json.loads(shardlab(*typed, *more).stdout) for more in ((), ("--network", "400"), ("--network", "10"))
    )
    assert usual == same and slow["plans"][0]["step_seconds"] > 1.05 * usual["plans"][0]["step_seconds"]


def test_only_the_recomputations_that_are_asked_for():
    typed = ("plan", "--model", "llama3-70b", "--gpus", "64", "--best", "30", "--json", "--recompute", "full")
    layouts = [one["layout"] for one in json.loads(shardlab(*typed).stdout)["plans"]]
    assert {one["recompute"] for one in layouts} == {"full"}
    some = [one["recomputed"] for one in layouts if one["recomputed"]]
    assert some and all(0 < k < n for k, n in some)


def test_days_and_price_of_a_whole_run():
    typed = ("plan", "--model", "llama2-7b", "--gpus", "16", "--tokens-per-batch", "262144", "--best", "1")
    more = ("--tokens", "2000000000000", "--price", "2.5")
    text, run = shardlab(*typed, *more).stdout, json.loads(shardlab(*typed, *more, "--json").stdout)["run_of_tokens"]
    assert run["days_low"] < run["days"] < run["days_high"] and 0.9 < run["goodput"] < 1
    assert run["price"] == pytest.approx(2.5 * run["gpu_hours"]) and run["gpu_hours"] == pytest.approx(
        384 * run["days"]
    )
    assert f"{run['days']:.1f} days" in text and f"{run['price']:,.0f}" in text


def test_flags_for_a_framework():
    typed = (
        "plan",
        "--model",
        "llama2-7b",
        "--gpus",
        "16",
        "--tokens-per-batch",
        "262144",
        "--best",
        "1",
        "--recompute",
        "none",
    )
    for name in ("megatron", "torchtitan"):
        text, data = (
            shardlab(*typed, "--export", name).stdout,
            json.loads(shardlab(*typed, "--export", name, "--json").stdout),
        )
        assert data["flags"]["flags"] and all(flag in text for flag in data["flags"]["flags"])


def test_predictions_of_a_file_of_runs(tmp_path):
    out = tmp_path / "out.csv"
    done = shardlab("predict", "--runs", str(RUNS), "--out", str(out))
    assert done.exit_code == 0 and "runs predicted" in done.stdout
    rows = list(csv.DictReader(out.open()))
    low, seconds, high = (float(rows[0][f"predicted_step_{name}"]) for name in ("low_s", "s", "high_s"))
    assert (low, high) == pytest.approx(step_interval(seconds), rel=1e-3) and low < seconds < high
    assert f"a 90% interval, a factor of {high / seconds:.2f} up and down" in done.stdout
    assert float(rows[0]["predicted_step_s"]) > 0 and rows[0]["not_predicted"] == ""


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (("plan", "--model", "gpt-9"), "unknown model"),
        (("plan", "--gpu", "tpu"), "use one of v100"),
        (("plan", "--gpus=-4"), "greater than or equal to 1"),
        (("plan", "--gpus", "1000000000"), "less than or equal to 1000000"),
        (("plan", "--tokens-per-batch", "0"), "greater than or equal to 1"),
        (("plan", "--tokens-per-batch", "9" * 30), "less than or equal to"),
        (("plan", "--gpus", "1009"), "more divisors"),
        (("plan", "--pipeline-zero", "3"), "less than or equal to 2"),
        (("plan", "--network", "0"), "use a number above 0, such as 400"),
        (("plan", "--network", "50000000000"), "up to 1,000,000"),
        (("plan", "--network", "nan"), "use a number above 0"),
        (("plan", "--recompute", "some"), "use one of none, selective, full, norms"),
        (("plan", "--price", "2"), "add --tokens"),
        (("plan", "--tokens", "1000", "--gpus", "8"), "fewer than one step of"),
        (("plan", "--tokens", "10000000000", "--price=-1"), "use 0 or more"),
        (("plan", "--export", "deepspeed"), "use megatron or torchtitan"),
        (("plan", "--run", "--export", "megatron"), "remove --export"),
        (("plan", "--gpu", "a100", "--fp8"), "has no fp8"),
        (("memory", "--microbatch", "-1"), "use 1 or more"),
        (("memory", "--gpu", "h1000"), "use one of v100"),
        (("plan", "--model", "gpt3-175b", "--gpus", "8"), "does not fit"),
        (("memory", "--tp", "5"), "use a tensor-parallel size of"),
        (("memory", "--zero", "9"), "use 0, 1, 2 or 3"),
        (("memory", "--tp", "8", "--gpus", "12"), "use 8, or 16 GPUs with dp = 2"),
        (("memory", "--pp", "2", "--microbatches", "4", "--virtual", "2", "--schedule", "gpipe"), "use virtual = 1"),
        (("memory", "--tp", "2147483647", "--cp", "2147483647", "--ep", "4"), "product is at most 1000000"),
        (("memory", "--ep", "3"), "ep = 3 does not divide"),
        (("memory", "--recompute", "some"), "use one of none, selective, full, norms"),
        (("plan", "--gpus", "nan"), "should be a valid integer"),
        (("plan", "--tokens-per-batch", "inf"), "should be a valid integer"),
        (("plan", "--gpu", "missing.json"), "there is no calibration"),
        (("plan", "--model", "missing.json"), "cannot be read as JSON"),
        (("predict", "--runs", "missing.csv", "--out", "x.csv"), "cannot be read"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(typed, sentence):
    done = shardlab(*typed)
    assert done.exit_code == 2 and sentence in done.output and "Traceback" not in done.output


GOOD = {"layers": 2, "hidden": 64, "heads": 8, "kv_heads": 8, "ffn": 256, "vocab": 1000, "sequence": 128}


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "is not a JSON object"),
        (json.dumps({"layers": 2}), "is missing hidden, heads"),
        (json.dumps(GOOD | {"wings": 2}), "has no wings"),
        (json.dumps(GOOD | {"layers": "two"}), "not a whole number"),
        (json.dumps(GOOD | {"kv_heads": 3}), "cannot share 3"),
        (json.dumps(GOOD | {"latent": {"rank": 1}}), "latent has the fields"),
        (json.dumps(GOOD | {"layers": float("nan")}), "layers = nan is not a whole number"),
        (json.dumps(GOOD | {"hidden": 10**30}), "no model is that large"),
        (json.dumps(GOOD)[:-1] + ', "layers": 3}', "layers is given more than once"),
        ("\ufeff" + json.dumps(GOOD), "cannot be read as JSON"),
    ],
)
@pytest.mark.parametrize("command", ["memory", "plan"])
def test_a_bad_model_file_is_answered_with_a_sentence(tmp_path, command, written, sentence):
    path = tmp_path / "mine.json"
    path.write_text(written, encoding="utf-8")
    done = shardlab(command, "--model", str(path))
    assert done.exit_code == 2 and sentence in done.output


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("[" * 200_000, "recursion"),
        ("null", "is not a calibration: it is not a JSON object"),
        ('{"format": 1}', "it lacks machine, measured"),
        ("{", "is truncated"),
    ],
    ids=["brackets", "null", "no fields", "truncated"],
)
@pytest.mark.parametrize("command", ["memory", "plan"])
def test_a_bad_file_of_an_accelerator_is_answered_with_a_sentence(tmp_path, command, written, sentence):
    path = tmp_path / "mine.json"
    path.write_text(written)
    done = shardlab(command, "--gpu", str(path))
    assert done.exit_code == 2 and sentence in done.output


def test_more_layers_than_can_be_dealt(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(GOOD | {"layers": 100_000}))
    done = shardlab("plan", "--model", str(path), "--tokens-per-batch", "131072")
    assert done.exit_code == 2 and "100000 layers are too many to divide into stages: use 1000 or fewer" in done.output


SIZES = st.sampled_from([1, 2, 3, 8, 61, 64, 96, 128, 1000, 4096, 10**6, 2**31 - 1]) | st.integers(-1, 300)
ODD = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.integers(2**31, 10**40) | st.just({})
FILES = st.fixed_dictionaries(
    {"heads": SIZES, "hidden": SIZES, "layers": st.integers(0, 200) | SIZES, "kv_heads": SIZES},
    optional={field.name: SIZES | ODD for field in fields(Transformer) if field.name not in GOOD}
    | dict.fromkeys(("ffn", "vocab", "sequence"), SIZES),
)


@settings(max_examples=100 if WHOLE else 25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=FILES, gpus=st.sampled_from([1, 7, 64, 1000, 1024]), tokens=st.integers(1, 10**12), plain=st.booleans())
@pytest.mark.slow
def test_any_model_file_gives_a_finite_answer_or_a_sentence(tmp_path, sizes, gpus, tokens, plain):
    if plain:  # consistent sizes; the rest still varies
        sizes |= {"ffn": 64, "vocab": 100, "sequence": 64, "heads": 8, "kv_heads": 8, "hidden": 64}
    path = tmp_path / "any.json"
    path.write_text(json.dumps(sizes))
    for typed in (("plan", "--gpus", str(gpus), "--tokens-per-batch", str(tokens), "--best", "1"), ("memory",)):
        done = shardlab(*typed, "--model", str(path), "--json")
        assert done.exit_code in (0, 2) and isinstance(done.exception, SystemExit | None), (sizes, done.exception)
        if done.exit_code:
            assert "Error" in done.output and "Traceback" not in done.output
        else:
            assert "NaN" not in done.stdout and "Infinity" not in done.stdout


def test_a_model_of_ones_own(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(GOOD))
    assert "total" in shardlab("memory", "--model", str(path)).stdout


def test_commands_load_no_torch():
    program = (
        "import sys\nfrom shardlab.commands.cli import app\nimport shardlab.costs.validation.validate\n"
        "app(['plan', '--model', 'llama2-7b', '--gpus', '8'], standalone_mode=False)\nsys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_degrees_that_are_given_are_not_searched():
    typed = ("plan", "--model", "llama2-7b", "--gpus", "32", "--tokens-per-batch", "262144", "--json")
    every = json.loads(shardlab(*typed, "--tp", "2", "--pp", "4").stdout)["plans"]
    assert {(one["layout"]["tp"], one["layout"]["pp"]) for one in every} == {(2, 4)}
    assert {one["layout"]["dp"] for one in json.loads(shardlab(*typed, "--dp", "4").stdout)["plans"]} == {4}
    (one,) = json.loads(shardlab(*typed, "--tp", "32", "--best", "1").stdout)["plans"]  # beyond the bound of the search
    assert one["layout"]["tp"] == 32
    free, fixed = (
        json.loads(shardlab(*typed, "--best", "1", *more).stdout)["plans"][0] for more in ((), ("--cp", "2"))
    )
    assert (
        fixed["layout"]["cp"] == 2 and fixed["step_seconds"] > free["step_seconds"]
    )  # 4,096 tokens are too few for cp


def test_an_expert_parallel_degree_is_given():
    typed = (
        "plan",
        "--model",
        "mixtral-8x7b",
        "--gpus",
        "16",
        "--tokens-per-batch",
        "1048576",
        "--json",
        "--best",
        "3",
    )
    assert {one["layout"]["ep"] for one in json.loads(shardlab(*typed, "--ep", "4").stdout)["plans"]} == {4}


@pytest.mark.parametrize(
    ("degrees", "sentence"),
    [
        (("--tp", "3"), "tp 3 does not divide 64 GPUs: use one of [1, 2, 4, 8, 16, 32, 64]"),
        (("--tp", "16", "--pp", "8"), "tp 16 x pp 8 is 128, but there are 64 GPUs: give degrees whose product divides"),
        (("--tp", "2", "--pp", "2", "--cp", "1", "--dp", "2"), "tp 2 x pp 2 x cp 1 x dp 2 is 8, but there are 64 GPUs"),
    ],
)
def test_degrees_that_cannot_be_are_refused(degrees, sentence):
    told = shardlab("plan", "--model", "llama2-7b", "--gpus", "64", *degrees)
    assert told.exit_code == 2 and sentence in " ".join(told.output.replace("│", " ").split())


def test_a_sequence_of_another_length():
    typed = ("plan", "--model", "llama3-8b", "--gpus", "16", "--best", "1", "--json")
    data = json.loads(shardlab(*typed, "--sequence", "32768").stdout)
    assert data["batch"]["sequence"] == 32768 and data["sequences"] * 32768 == data["batch"]["tokens"]
    told = shardlab("plan", "--model", "gpt3-175b", "--gpus", "1024", "--sequence", "4096")
    assert told.exit_code == 2 and "learned positions: use sequences of 2048 or fewer" in told.output
