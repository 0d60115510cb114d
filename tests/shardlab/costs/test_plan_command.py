"""`shardlab plan`, `memory` and `predict` as typed, with good and bad input."""

import csv
import json
import subprocess
import sys

import pytest
from shardlab.cli import app
from shardlab.costs.validation.published import RUNS
from typer.testing import CliRunner


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


def test_a_plan_with_stages_and_a_doubt():
    typed = ("plan", "--model", "gpt-1t", "--gpus", "1024", "--best", "1")
    text, data = shardlab(*typed).stdout, json.loads(shardlab(*typed, "--json").stdout)
    assert sum(data["layers_of_stages"]) == 128 and "the slowest is as quick as can be" in text
    assert ("Check before you trust it" in text) == bool(data["doubt"]) == (data["plans"][0]["layout"]["tp"] > 8)


def test_gradients_may_be_cut_beside_a_pipeline():
    typed = ("plan", "--model", "gpt-1t", "--gpus", "1024", "--best", "50", "--json", "--pipeline-zero")
    for most in (1, 2):
        plans = json.loads(shardlab(*typed, str(most)).stdout)["plans"]
        assert max(one["layout"]["zero"] for one in plans if one["layout"]["pp"] > 1) == most


def test_the_memory_of_a_layout():
    held = json.loads(shardlab("memory", "--model", "llama2-7b", "--dp", "8", "--zero", "3", "--json").stdout)
    assert held["optimizer"] == pytest.approx(12 * 6.738e9 / 8, rel=1e-3)
    assert held["total"] == pytest.approx(sum(held.values()) - held["total"], abs=8)
    assert "does not fit" in shardlab("memory", "--model", "llama2-70b").stdout


def test_predictions_of_a_file_of_runs(tmp_path):
    out = tmp_path / "out.csv"
    done = shardlab("predict", "--runs", str(RUNS), "--out", str(out))
    assert done.exit_code == 0 and "runs predicted" in done.stdout
    rows = list(csv.DictReader(out.open()))
    assert float(rows[0]["predicted_step_s"]) > 0 and rows[0]["not_predicted"] == ""


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (("plan", "--model", "gpt-9"), "there is no model"),
        (("plan", "--gpu", "tpu"), "use one of v100"),
        (("plan", "--gpus=-4"), "greater than or equal to 1"),
        (("plan", "--gpus", "1000000000"), "less than or equal to 1000000"),
        (("plan", "--tokens-per-batch", "0"), "greater than or equal to 1"),
        (("plan", "--tokens-per-batch", "9" * 30), "less than or equal to"),
        (("plan", "--gpus", "1009"), "more divisors"),
        (("plan", "--pipeline-zero", "3"), "less than or equal to 2"),
        (("plan", "--gpu", "a100", "--fp8"), "has no fp8"),
        (("memory", "--microbatch", "-1"), "use 1 or more"),
        (("memory", "--gpu", "h1000"), "use one of v100"),
        (("plan", "--model", "gpt3-175b", "--gpus", "8"), "does not fit"),
        (("memory", "--tp", "5"), "use a tensor-parallel size of"),
        (("memory", "--zero", "9"), "use 0, 1, 2 or 3"),
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
        ("[]", "holds no object"),
        (json.dumps({"layers": 2}), "lacks hidden, heads"),
        (json.dumps(GOOD | {"wings": 2}), "has no wings"),
        (json.dumps(GOOD | {"layers": "two"}), "no whole number"),
        (json.dumps(GOOD | {"kv_heads": 3}), "cannot share 3"),
        (json.dumps(GOOD | {"latent": {"rank": 1}}), "latent has the fields"),
    ],
)
def test_a_bad_model_file_is_answered_with_a_sentence(tmp_path, written, sentence):
    path = tmp_path / "mine.json"
    path.write_text(written)
    done = shardlab("memory", "--model", str(path))
    assert done.exit_code == 2 and sentence in done.output


def test_a_model_of_ones_own(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(GOOD))
    assert "total" in shardlab("memory", "--model", str(path)).stdout


def test_commands_load_no_torch():
    program = (
        "import sys\nfrom shardlab.cli import app\nimport shardlab.costs.validation.validate\n"
        "app(['plan', '--model', 'llama2-7b', '--gpus', '8'], standalone_mode=False)\nsys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
