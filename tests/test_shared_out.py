"""`pytest --cases` selects a fixed set, the same in every process; runs report retries and fail on leaked processes."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.shared_out import APART, LONGEST, WHOLE_ONLY

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
FLAKY = """
    import pathlib, pytest

    def test_late():
        mark = pathlib.Path("seen")
        first = not mark.exists()
        mark.touch()
        assert not first, "the machine was busy"

    def test_never():
        assert False, "wrong each time"
"""
SLEEPS = """
    import pathlib, subprocess, sys

    def test_starts_a_rank():
        words = [sys.executable, "-c", "import time; time.sleep(60)", "shardlab"]
        pathlib.Path("pid").write_text(str(subprocess.Popen(words).pid))
"""
PROCESSES = pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "shared out"])


@pytest.fixture
def run(pytester: pytest.Pytester):
    pytester.makeini(INI)
    return lambda *words: pytester.runpytest_subprocess("-p", "tests.shared_out", *words)


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
def test_the_tests_of_a_file_stay_in_one_process(pytester: pytest.Pytester, run):
    body = "import os, pathlib\ndef test_{0}(): pathlib.Path('{0}').write_text(str(os.getpid()))\n"
    pytester.makepyfile(**{f"test_{name}": body.format(f"{name}1") + body.format(f"{name}2") for name in "abcd"})
    run("-n", "2").assert_outcomes(passed=8)
    assert all(Path(pytester.path, f"{n}1").read_text() == Path(pytester.path, f"{n}2").read_text() for n in "abcd")


@pytest.mark.slow
@PROCESSES
def test_a_second_try_is_reported_with_its_first_failure(pytester: pytest.Pytester, run, processes):
    pytester.makepyfile(FLAKY)
    result = run("--reruns", "1", *processes)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*::test_late*passed on the second try; its first failure: *the machine was busy*"])
    result.stdout.no_fnmatch_line("*test_never*second try*")


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
    assert [name for name in LONGEST if not [*ROOT.glob(f"{name}*")]] == []
    assert [name for name in APART if not (ROOT / name).is_file()] == []
    source = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name in WHOLE_ONLY if f"def {name}(" not in source] == []


def test_names_of_tests_are_short():
    source = "".join(
        path.read_text() for folder in ("tests", "solutions") for path in (ROOT / folder).rglob("test_*.py")
    )
    assert [name for name in re.findall(r"def (test_\w+)", source) if len(name) > 70] == []
