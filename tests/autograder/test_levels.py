"""Which level of isolation a machine offers, what doctor says about it, and how jobs use it."""

import ast
import os
import subprocess

import pytest
from shardlab.commands.doctor import NOTE, OK

from autograder import doctor
from autograder.authoring import minutes, notebooks
from autograder.grading import reports
from autograder.sandboxes import bubblewrap, containers, zygote
from tests import levels

# When a level does not start, graders see the reason, and a test fails instead of being skipped


@pytest.fixture
def no_level(monkeypatch):
    monkeypatch.delenv(levels.KNOWN, raising=False)
    monkeypatch.setattr(bubblewrap, "problem", lambda: "bwrap: Permission denied")
    monkeypatch.setattr(containers, "found", lambda: None)
    monkeypatch.setattr(containers, "why_not", lambda: "podman: no such runtime")
    monkeypatch.setattr(zygote, "level", lambda: 1)


def test_who_may_not_grade_reads_why(no_level):
    text = reports.no_isolation()
    assert "no level 3: bwrap: Permission denied; no level 2: podman: no such runtime" in text


def test_a_lowered_level_is_named(no_level, monkeypatch):
    monkeypatch.setattr(zygote, "why_not", lambda level: None)
    assert "AUTOGRADER_LEVEL=1 is set" in reports.no_isolation()


@pytest.mark.parametrize(("level", "reason"), [(3, "Permission denied"), (2, "no such runtime")])
def test_an_installed_engine_that_does_not_start_fails_the_test(no_level, monkeypatch, level, reason):
    monkeypatch.setattr(levels, "is_installed", lambda wanted: True)
    with pytest.raises(pytest.fail.Exception, match=reason):
        levels.require(level)
    monkeypatch.setenv(levels.KNOWN, "3 2")
    with pytest.raises(pytest.skip.Exception, match=reason):
        levels.require(level)


def test_without_an_engine_it_is_skipped(no_level, monkeypatch):
    monkeypatch.setattr(levels, "is_installed", lambda wanted: False)
    with pytest.raises(pytest.skip.Exception, match="no such runtime"):
        levels.require(2)


@pytest.mark.parametrize(("installed", "ends"), [(True, pytest.fail.Exception), (False, pytest.skip.Exception)])
def test_a_test_of_grades_needs_level_3_or_2(no_level, monkeypatch, installed, ends):
    monkeypatch.setattr(levels, "is_installed", lambda wanted: installed)
    with pytest.raises(ends, match="Permission denied"):
        levels.require()
    monkeypatch.setattr(zygote, "level", lambda: 2)
    levels.require()


def test_what_bubblewrap_says_is_kept(monkeypatch, tmp_path):
    engine = tmp_path / "bwrap"
    engine.write_text("#!/bin/sh\necho noise >&2; echo 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert bubblewrap.problem.__wrapped__() == "bwrap: No permissions to create new namespace"


@pytest.mark.parametrize("wrong", [OSError("no such program"), subprocess.TimeoutExpired("bwrap", 60)])
def test_a_probe_that_does_not_run_is_a_reason(monkeypatch, wrong):
    def run(*_, **__):
        raise wrong

    monkeypatch.setattr(bubblewrap.subprocess, "run", run)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: "/usr/bin/bwrap")
    assert bubblewrap.problem.__wrapped__() == str(wrong)


# ---- What `shardlab doctor` says about the sandbox: the level, and how to raise it -----------------------------------


@pytest.mark.parametrize(
    ("level", "platform", "bubblewrap", "state", "advice"),
    [
        (3, "linux", "/usr/bin/bwrap", OK, ""),
        (2, "linux", "/usr/bin/bwrap", OK, ""),
        (1, "linux", None, NOTE, "apt install bubblewrap"),
        (1, "linux", "/usr/bin/bwrap", NOTE, "leave the container"),
        (1, "linux", "/usr/bin/bwrap", NOTE, "docker: no daemon answers"),
        (1, "darwin", None, NOTE, "Linux machine"),
    ],
)
def test_the_level_and_its_remedy(monkeypatch, level, platform, bubblewrap, state, advice):
    monkeypatch.setattr(doctor, "level", lambda: level)
    monkeypatch.setattr(doctor.containers, "found", lambda: ("docker",))
    monkeypatch.setattr(doctor, "missing", lambda: "no level 2: docker: no daemon answers")
    monkeypatch.setattr(doctor.sys, "platform", platform)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: bubblewrap)
    finding = doctor.sandbox()
    assert finding.state == state and f"level {level}" in finding.value
    assert ("(docker)" in finding.value) == (level == 2)
    assert advice in finding.advice and bool(finding.advice) == bool(advice)


# ---- A page starts with few imports, can be read in one sitting, and has small cases worked by hand ------------------


MOST_IMPORTS = 5
MOST_WORDS = 3500
EVERY = notebooks.weeks()
ENTERED = [week for week in EVERY if week < "week05"]  # later pages import other libraries for comparison


@pytest.mark.parametrize("week", ENTERED)
def test_a_page_needs_five_imports_at_most(week):
    code = [cell.source for cell in notebooks.read_source(week).cells if cell.cell_type == "code"]
    trees = [ast.parse("\n".join(line for line in one.splitlines() if not line.startswith("!"))) for one in code]
    found = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    found = [node for node in found if not ast.unparse(node).startswith("from mine")]  # code that the reader wrote
    assert len(found) <= MOST_IMPORTS, [ast.unparse(node) for node in found]


@pytest.mark.parametrize("week", EVERY)
def test_a_page_opens_with_five_imports_at_most(week):
    first = next(cell.source for cell in notebooks.read_source(week).cells if cell.cell_type == "code")
    assert sum(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(first).body) <= MOST_IMPORTS


@pytest.mark.parametrize("week", EVERY)
def test_a_page_is_read_in_one_sitting(week):
    text = [cell.source for cell in notebooks.release(week).cells if cell.cell_type == "markdown"]
    assert sum(len(one.split()) for one in text) <= MOST_WORDS


MOST_MINUTES = 180


@pytest.mark.parametrize("week", EVERY)
def test_the_core_of_a_page_takes_three_hours_at_most(week):
    found = minutes.minutes(week)
    assert found.core <= MOST_MINUTES
    if week != "project":  # takes weeks, which no rule estimates
        assert f"*{found} · " in notebooks.read_source(week).cells[0].source, f"write *{found} · … under its title"


@pytest.mark.parametrize("week", EVERY)
def test_exactly_the_exercises_of_the_optional_part_give_extra_credit(week):
    for is_optional, cells in enumerate(minutes.parts(notebooks.read_source(week).cells)):
        checks = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade") and cell.cell_type == "code"]
        assert [cell.id for cell in checks if notebooks.is_optional(cell) != is_optional] == []


@pytest.mark.parametrize("week", [week for week in EVERY if not week.startswith(("week00", "quiz", "project"))])
def test_cases_by_hand_stand_on_the_page(week):
    text = "\n".join(cell.source for cell in notebooks.release(week).cells if cell.cell_type == "markdown")
    assert text.lower().count("by hand") >= 4


@pytest.mark.parametrize("week", EVERY)
def test_no_sum_in_the_text_becomes_a_bullet(week):
    text = [cell.source for cell in notebooks.release(week).cells if cell.cell_type == "markdown"]
    assert [line for one in text for line in one.splitlines() if line.lstrip("> ").startswith("+ ")] == []
