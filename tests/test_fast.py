"""`pytest --fast` keeps one case of a test, leaves out what is slow, and judges only the attacks that it asks for."""

import pytest

TESTS = """
    import pytest

    @pytest.mark.parametrize("number", range(5))
    def test_many(number):
        assert number == 0

    @pytest.mark.slow
    def test_long(): raise AssertionError

    @pytest.mark.slow
    @pytest.mark.sampled
    @pytest.mark.parametrize("number", range(15))
    def test_sample(number, pytestconfig):
        assert pytestconfig.getoption("fast")
"""
CASES = """
    from types import SimpleNamespace
    import pytest
    from tests.fast import asked_for

    CASES = [SimpleNamespace(name=name) for name in ("one", "two", "three", "four")]

    @pytest.fixture(scope="module")
    def run(request):
        return [case.name for case in asked_for(CASES, request)]

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_case(run, case):
        assert run == ["one"]

    def test_all(run): pass
"""


def test_one_case_of_each_test_and_nothing_slow(pytester: pytest.Pytester):
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "tests.fast", "--fast")
    result.assert_outcomes(passed=13, deselected=8)


def test_a_fixture_runs_the_cases_that_are_asked_for(pytester: pytest.Pytester):
    pytester.makepyfile(CASES)
    result = pytester.runpytest_subprocess("-p", "tests.fast", "--fast")
    result.assert_outcomes(passed=2, deselected=3)
