"""`pytest --sample` keeps a fixed set, the same in every process; `every_case` keeps all cases of a test."""

from pathlib import Path

import pytest

from tests.whole import WHOLE_ONLY

TESTS = """
    import pytest

    @pytest.mark.parametrize("number", range(30))
    def test_many(number): pass

    @pytest.mark.parametrize("number", range(5))
    def test_some(number): pass

    @pytest.mark.parametrize("number", range(4))
    def test_few(number): pass

    @pytest.mark.every_case
    @pytest.mark.parametrize("number", range(12))
    def test_all(number): pass

    def test_one(): pass
"""
SLOW = "import pytest\n" + "".join(
    f"""
@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_slow_{name}(number): pass
"""
    for name in range(30)
)
MARKERS = "[pytest]\nmarkers =\n    every_case: runs whole\n    slow: takes long\n"
ALL, KEPT = 30 + 5 + 4 + 12 + 1, 2 + 2 + 2 + 12 + 1


@pytest.mark.parametrize(("arguments", "passed"), [((), ALL), (("--sample",), KEPT)], ids=["whole", "sample"])
def test_a_share_of_many_cases(pytester: pytest.Pytester, arguments, passed):
    pytester.makepyfile(TESTS)
    pytester.makeini(MARKERS)
    result = pytester.runpytest_subprocess("-p", "tests.whole", *arguments)
    result.assert_outcomes(passed=passed, deselected=ALL - passed)


def test_two_processes_take_the_same(pytester: pytest.Pytester):
    pytester.makepyfile(TESTS)
    pytester.makeini(MARKERS)
    result = pytester.runpytest_subprocess("-p", "tests.whole", "-n", "2", "--sample")
    result.assert_outcomes(passed=KEPT)


def test_every_slow_test_runs_its_first_case(pytester: pytest.Pytester):
    pytester.makepyfile(SLOW)
    pytester.makeini(MARKERS)
    result = pytester.runpytest_subprocess("-p", "tests.whole", "--sample", "-v")
    result.assert_outcomes(passed=30, deselected=30 * 11)
    assert all("[0]" in line for line in result.outlines if "PASSED" in line)


def test_what_only_the_whole_suite_runs_is_there():
    source = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name in WHOLE_ONLY if f"def {name}(" not in source] == []
