"""With `--json`, standard output is only JSON, whatever ranks print while they run."""

import json
from collections.abc import Iterator
from dataclasses import asdict

import pytest
import typer
from shardlab.commands import doctor
from shardlab.commands.cli import app as shardlab
from shardlab.commands.doctor import Finding
from typer.testing import CliRunner

from autograder.cli import app as autograder
from benchmarks import __main__ as benchmarks
from benchmarks.row import at_most

TYPED = {  # a short call of every command that has a --json flag
    "doctor": ("--brief",),
    "schedule": ("1f1b",),
    "mesh": ("--tp", "2"),
    "plan": ("--model", "llama2-7b", "--gpus", "8"),
    "memory": ("--model", "llama2-7b"),
    "audit": ("nobody", "--week", "week01"),
    "similarity": ("--week", "week01"),
}


def flags(app: typer.Typer) -> Iterator[str]:
    """Yield names of the commands that have --json as a flag without a value."""
    for name, command in typer.main.get_command(app).commands.items():
        if any("--json" in option.opts and option.is_flag for option in command.params):
            yield name


def test_every_command_with_json_is_called_below():
    assert set(TYPED) == {*flags(shardlab), *flags(autograder)}


@pytest.mark.parametrize("name", [name for name in TYPED if name not in ("audit", "similarity")])
def test_a_command_of_shardlab_prints_json_alone(name):
    done = CliRunner().invoke(shardlab, [name, *TYPED[name], "--json"])
    assert json.loads(done.stdout)


@pytest.mark.parametrize("name", ["audit", "similarity"])
def test_a_command_of_the_grader_prints_json_alone_or_a_sentence_elsewhere(name, tmp_path):
    (tmp_path / "submitted").mkdir()
    done = CliRunner().invoke(autograder, [name, *TYPED[name], "--submitted", str(tmp_path / "submitted"), "--json"])
    assert json.loads(done.stdout) if done.stdout else done.stderr and done.exit_code == 2


def test_signs_of_life_of_ranks_are_no_part_of_what_doctor_finds(monkeypatch):
    def slow_ranks():
        print("… still running after 5 s (at most 60 s)")
        return Finding("2 real ranks", "fine")

    monkeypatch.setattr(doctor, "QUICK", [slow_ranks])
    done = CliRunner().invoke(shardlab, ["doctor", "--brief", "--json"])
    assert json.loads(done.stdout)["findings"][0]["value"] == "fine"
    assert "still running" in done.stderr


class Benchmark:
    """Prints to standard output, where it should not."""

    @staticmethod
    def measure():
        print("… still running after 5 s (at most 60 s)")
        return [at_most("seconds", 0.2, 0.25)]


def test_progress_of_benchmarks_goes_to_standard_error(monkeypatch, capsys):
    monkeypatch.setattr(benchmarks, "import_module", lambda name: Benchmark)
    monkeypatch.setattr(benchmarks, "remember", lambda name, seconds: f"{name} took {seconds:.0f} s")
    assert benchmarks.main(["warm-call", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == [asdict(at_most("seconds", 0.2, 0.25))]
    assert "still running" in err and "1 of 1: measuring warm-call" in err and "warm-call took" in err
