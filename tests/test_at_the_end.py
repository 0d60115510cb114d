"""A run's last words: second tries with their first failure, skipped tests by reason, and processes that were left."""

import os
import signal
from pathlib import Path

import pytest

FLAKY = """
    import pathlib, pytest

    def test_late():
        mark = pathlib.Path("seen")
        first = not mark.exists()
        mark.touch()
        assert not first, "the machine was busy"

    def test_never():
        assert False, "wrong each time"

    def test_right():
        pass

    @pytest.mark.parametrize("number", range(3))
    def test_elsewhere(number):
        pytest.skip("no GPU here")
"""
SLEEPS = """
    import pathlib, subprocess, sys

    def test_starts_a_rank():
        words = [sys.executable, "-c", "import time; time.sleep(60)", "shardlab"]
        pathlib.Path("pid").write_text(str(subprocess.Popen(words).pid))
"""
PROCESSES = pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "side by side"])


@pytest.mark.slow
@PROCESSES
def test_a_first_failure_is_told_at_the_end_and_so_are_reasons(pytester: pytest.Pytester, processes):
    pytester.makepyfile(FLAKY)
    result = pytester.runpytest_subprocess("-p", "tests.at_the_end", "--reruns", "1", *processes)
    result.assert_outcomes(passed=2, failed=1, skipped=3)
    result.stdout.fnmatch_lines(["*1 passed at the second try*", "*::test_late failed at first (call): *the machine*"])
    result.stdout.fnmatch_lines(["*3 not run here*", "3: no GPU here"])
    result.stdout.no_fnmatch_line("*test_never failed at first*")


@pytest.mark.slow
@PROCESSES
def test_a_process_that_is_left_fails_the_run(pytester: pytest.Pytester, processes):
    pytester.makepyfile(SLEEPS)
    result = pytester.runpytest_subprocess("-p", "tests.left_behind", *processes)
    os.kill(int(Path(pytester.path, "pid").read_text()), signal.SIGKILL)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["left behind: *python*"])
