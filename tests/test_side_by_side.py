"""Tests are shared out by file, kill matrices by exercise."""

from pathlib import Path

import pytest

from tests import side_by_side

ROOT = Path(__file__).parents[1]


def test_a_file_stays_together_and_some_are_taken_apart():
    part_of = side_by_side.part_of
    assert part_of("tests/test_pins.py::test_a[1]") == part_of("tests/test_pins.py::test_b") == "tests/test_pins.py"
    apart, *_ = side_by_side.APART
    assert part_of(f"{apart}::test_a[1]") != part_of(f"{apart}::test_a[2]")


def test_what_is_named_is_there():
    for file in side_by_side.APART:
        assert (ROOT / file).is_file(), file
    for name in side_by_side.LONGEST:
        assert [*ROOT.glob(f"{name}*")], name


@pytest.mark.slow
def test_two_processes_share_the_files(pytester: pytest.Pytester):
    body = "import os, pathlib\ndef test_{0}(): pathlib.Path('{0}').write_text(str(os.getpid()))\n"
    files = {f"test_{name}": body.format(f"{name}1") + body.format(f"{name}2") for name in "abcd"}
    pytester.makepyfile(**files)
    result = pytester.runpytest_subprocess("-p", "tests.side_by_side", "-n", "2")
    result.assert_outcomes(passed=8)
    assert all(Path(pytester.path, f"{n}1").read_text() == Path(pytester.path, f"{n}2").read_text() for n in "abcd")


def test_a_set_as_a_parameter_is_refused(pytester):
    """Two processes would know the test by two names, and none would run."""
    pytester.makepyfile(
        "import pytest\n\n@pytest.mark.parametrize('axes', [{'dp', 'pp'}], ids=str)\ndef test_it(axes): ...\n"
    )
    result = pytester.runpytest_subprocess("-p", "tests.side_by_side")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*set as a parameter*test_it*"])
