"""Where a level does not start: the reason reaches whoever grades, and a test fails instead of being skipped."""

import os
import subprocess

import pytest

from autograder.grading import reports
from autograder.sandboxes import bubblewrap, containers, zygote
from tests import levels


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
