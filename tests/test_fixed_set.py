"""`pytest --cases` selects a fixed set, the same in every process; a run fails on leaked processes."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.fixed_set import FIRST, LONGEST, WHOLE_ONLY

ROOT = Path(__file__).parents[1]
INI = "[pytest]\nmarkers =\n    every_case: runs whole\n    slow: takes long\n"
MANY = """
    import pytest

    @pytest.mark.parametrize("number", range(30))
    def test_many(number): pass

    @pytest.mark.every_case
    @pytest.mark.parametrize("number", range(12))
    def test_all(number): pass

    @pytest.mark.slow
    @pytest.mark.parametrize("number", range(12))
    def test_slow(number): assert number == 0 or __import__("os").environ.get("WHOLE")

    def test_one(): pass
"""
SLEEPS = """
    import pathlib, subprocess, sys

    def test_starts_a_rank():
        words = [sys.executable, "-c", "import time; time.sleep(60)", "shardlab"]
        pathlib.Path("pid").write_text(str(subprocess.Popen(words).pid))
"""
PROCESSES = pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "shared out"])


@pytest.fixture(autouse=True)
def plugins_are_found(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)


@pytest.fixture
def run(pytester: pytest.Pytester):
    pytester.makeini(INI)
    return lambda *words: pytester.runpytest_subprocess("-p", "tests.fixed_set", *words)


@pytest.mark.slow
@PROCESSES
def test_few_of_many_cases(pytester: pytest.Pytester, run, processes):
    pytester.makepyfile(MANY)
    passed = 2 + 12 + 1 + 1
    run("--cases", "2", *processes).assert_outcomes(passed=passed, deselected=0 if processes else 55 - passed)


@pytest.mark.slow
def test_all_cases_without_the_option_and_nothing_slow_with_m(pytester: pytest.Pytester, run, monkeypatch):
    pytester.makepyfile(MANY)
    run("--cases", "1", "-m", "not slow").assert_outcomes(passed=14, deselected=41)
    monkeypatch.setenv("WHOLE", "1")
    run().assert_outcomes(passed=55)


@pytest.mark.slow
@PROCESSES
def test_a_process_that_is_left_fails_the_run(pytester: pytest.Pytester, processes):
    pytester.makepyfile(SLEEPS)
    pytester.makeconftest((ROOT / "conftest.py").read_text())
    result = pytester.runpytest_subprocess(*processes)
    os.kill(int(Path(pytester.path, "pid").read_text()), signal.SIGKILL)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*left behind*"])


def test_what_is_named_is_there():
    assert [name for name in FIRST if not [*ROOT.glob(f"{name}*")]] == []
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []


def test_what_only_the_whole_suite_runs_is_covered_by_the_fixed_set():
    files = {
        path.stem: path.read_text() for folder in ("tests", "solutions") for path in (ROOT / folder).rglob("test_*.py")
    }
    names = set(re.findall(r"^ *def (test_\w+)\(", "\n".join(files.values()), re.MULTILINE))
    covering = {name for reason in WHOLE_ONLY.values() for name in re.findall(r"test_\w+", reason)}
    assert WHOLE_ONLY.keys() - names == set(), "no such tests"
    assert covering - (names - WHOLE_ONLY.keys()) - files.keys() == set(), "these are not in the fixed set"


def test_names_of_tests_are_short():
    source = "".join(
        path.read_text() for folder in ("tests", "solutions") for path in (ROOT / folder).rglob("test_*.py")
    )
    assert [name for name in re.findall(r"def (test_\w+)", source) if len(name) > 70] == []
