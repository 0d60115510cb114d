"""`pytest --sample` keeps a share of the cases, alike in every process; `every_case` keeps all of them."""

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
SLOW = "import pytest\n" + "".join(
    f"""
@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_slow_{name}(number): pass
"""
    for name in range(30)
)
MARKERS = "[pytest]\nmarkers =\n    every_case: runs whole\n    slow: takes long\n    together: all or none\n"
ALL, KEPT = 30 + 5 + 4 + 12 + 1, 5 + 3 + 3 + 12 + 1


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


def test_of_the_slow_ones_about_a_fifth_run_and_each_a_sixth_of_its_cases(pytester: pytest.Pytester):
    pytester.makepyfile(SLOW)
    pytester.makeini(MARKERS)
    result = pytester.runpytest_subprocess("-p", "tests.whole", "--sample")
    passed = result.parseoutcomes()["passed"]
    assert passed % 2 == 0 and 1 <= passed / 2 <= 15  # of 30, each with 2 of 12 cases


def test_a_file_whose_tests_share_what_takes_long_runs_whole_or_not_at_all(pytester: pytest.Pytester):
    mark = "import pytest\npytestmark = [pytest.mark.slow, pytest.mark.together]\n"
    tests = "".join(f"def test_{name}(): pass\n" for name in "abc")
    pytester.makepyfile(**{f"test_file_{number}": mark + tests for number in range(32)})
    pytester.makeini(MARKERS)
    result = pytester.runpytest_subprocess("-p", "tests.whole", "--sample", "-v")
    passed = result.parseoutcomes()["passed"]
    assert passed % 3 == 0 and 1 <= passed / 3 <= 15
    files = [line.split("::")[0] for line in result.outlines if "PASSED" in line]
    assert {files.count(file) for file in files} == {3}
