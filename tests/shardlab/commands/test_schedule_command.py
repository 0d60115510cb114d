"""The command prints what the package computes, and refuses with sizes that work."""

import json

import pytest
import typer
from shardlab.commands.schedule import schedule
from shardlab.pipeline_parallel.builders import BUILDERS, zbv
from shardlab.pipeline_parallel.traces import from_csv
from typer.testing import CliRunner

app = typer.Typer()
app.command("schedule")(schedule)


def call(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("name", BUILDERS)
def test_json_is_one_object(name):
    result = call(name, "--ranks", "2", "--microbatches", "4", "--json")
    found = json.loads(result.stdout)
    assert len(found["ranks"]) == len(found["idle"]) == len(found["span_idle"]) == len(found["peak_activations"]) == 2
    assert found["makespan"] == pytest.approx(found["idle"][0] + 3 * sum("F" in a for a in found["ranks"][0]))


def test_the_text_names_bubble_and_memory():
    result = call("1f1b", "--ranks", "4", "--microbatches", "8")
    assert "rank 3: 3F0 3B0 3F1 3B1" in result.stdout
    assert "makespan 33; a rank idles up to 9, 27.3% of it" in result.stdout
    assert "activations at most: 4 3 2 1" in result.stdout


def test_files(tmp_path):
    files = {kind: tmp_path / f"zbv.{kind}" for kind in ("csv", "trace", "figure")}
    options = [part for kind, path in files.items() for part in (f"--{kind}", str(path))]
    assert call("zbv", *options).exit_code == 0
    assert from_csv(files["csv"].read_text()) == zbv(4, 8)
    assert json.loads(files["trace"].read_text())["traceEvents"]
    assert files["figure"].read_bytes().startswith(b"\x89PNG")
    assert from_csv(call("zbv", "--csv", "-").stdout) == zbv(4, 8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chimera"], "there is no schedule 'chimera'"),
        (["dualpipe", "--microbatches", "9"], "use 8 or 10"),
        (["interleaved", "--virtual", "1"], "use 2 or more"),
        (["gpipe", "--ranks", "0"], "use 1 or more"),
    ],
)
def test_what_does_not_work_is_said_in_a_sentence(arguments, words):
    result = call(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", "").split())
