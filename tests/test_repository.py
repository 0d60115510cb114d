"""Files of the repository keep their form: .github, decisions, citation; checks that read JSON alone."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from shardlab.commands import doctor
from shardlab.commands.cli import app as shardlab
from shardlab.commands.doctor import Finding
from typer.testing import CliRunner

from autograder.cli import app as autograder
from benchmarks import __main__ as benchmarks
from benchmarks.row import at_most

# ---- The files in .github parse and name commands of this project; decisions and the citation keep their form. -------

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def read(path: Path) -> dict[str, Any]:
    """Read YAML with `on` as a text: version 1.1 of the format takes it for true."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def commands(path: Path) -> str:
    return "\n".join(step.get("run", "") for step in steps(read(path)))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_commands_that_exist(path):
    called, scripts = re.findall(r"\bmake ([a-z-]+)", commands(path)), re.findall(r"\bbash (\S+)", commands(path))
    assert called or scripts
    assert [target for target in called if target not in TARGETS] == []
    assert [script for script in scripts if not (ROOT / script).is_file()] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_unless_a_job_says_more(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert all(int(job.get("timeout-minutes", 360)) <= 360 for job in workflow["jobs"].values())
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in steps(workflow) if "uses" in step)


def test_ci_runs_on_changes_and_the_whole_suite_at_night():
    workflow = read(ROOT / ".github" / "workflows" / "ci.yml")
    assert {"push", "pull_request", "schedule"} <= set(workflow["on"])
    runs = {name: " ".join(step.get("run", "") for step in job["steps"]) for name, job in workflow["jobs"].items()}
    assert "bash .ci/run" in runs["test"] and "WHOLE" not in runs["test"]
    assert "WHOLE=1 bash .ci/run" in runs["whole"] and "schedule" in workflow["jobs"]["whole"]["if"]
    assert re.search(r"^make test$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


def test_pages_publishes_the_folder_that_the_site_is_written_to():
    found = list(steps(read(ROOT / ".github" / "workflows" / "pages.yml")))
    upload = next(step for step in found if "upload-pages-artifact" in step.get("uses", ""))
    assert upload["with"]["path"] == "build/site"
    assert any("deploy-pages" in step.get("uses", "") for step in found)


@pytest.mark.parametrize("path", [one for one in FORMS if one.stem != "config"], ids=lambda path: path.stem)
def test_an_issue_form_asks_something_that_must_be_answered(path):
    form = read(path)
    assert form["name"] and form["description"] and form["body"]
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked)
    assert any(part.get("validations", {}).get("required") == "true" for part in asked)


def test_the_owners_are_placeholders_for_paths_that_exist():
    rules = re.findall(r"^(?:# )?(/\S+|\*) +(@\S+)$", (ROOT / ".github" / "CODEOWNERS").read_text(), re.MULTILINE)
    assert {owner.split("/")[0] for _, owner in rules} == {"@ORGANIZATION"}
    assert [path for path, _ in rules if path != "*" and not (ROOT / path.strip("/")).exists()] == []


def test_the_citation_names_the_version_of_the_package():
    cited = read(ROOT / "CITATION.cff")
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared and cited["version"] == declared[1]
    assert f"## {declared[1]} - {cited['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=lambda path: path.stem)
def test_a_decision_is_one_page_with_its_four_parts(path):
    text = path.read_text()
    assert len(text.split()) <= 250
    parts = ("*Status: ", "**Context.** ", "**Decision.** ", "**Consequences.**\n", "**Alternatives that lost.**\n")
    places = [text.find(part) for part in parts]
    assert -1 not in places and places == sorted(places)
    assert f"]({path.name})" in (path.parent / "README.md").read_text()


# ---- With `--json`, standard output is only JSON, whatever ranks print while they run. -------------------------------

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
