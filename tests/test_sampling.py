"""`pytest --sample` keeps a third of a test's cases, the same in every process, and all of what says so."""

import pytest

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
KEPT = 10 + 4 + 4 + 12 + 1


@pytest.mark.parametrize(("arguments", "passed"), [((), 52), (("--sample",), KEPT)], ids=["whole", "sample"])
def test_a_third_of_many_cases(pytester: pytest.Pytester, arguments, passed):
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers = every_case: runs whole\n")
    result = pytester.runpytest_subprocess("-p", "tests.whole", *arguments)
    result.assert_outcomes(passed=passed, deselected=52 - passed)


def test_two_processes_take_the_same(pytester: pytest.Pytester):
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers = every_case: runs whole\n")
    result = pytester.runpytest_subprocess("-p", "tests.whole", "-n", "2", "--sample")
    result.assert_outcomes(passed=KEPT)
