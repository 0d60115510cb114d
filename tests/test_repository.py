"""The files in .github parse and name commands of this project; decisions and the citation keep their form."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

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
