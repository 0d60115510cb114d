"""Select the tests of a run.

`--cases 2`, as in CI, runs a fixed set, so that a regression fails the commit that caused it: every test function
except those in `whole_only.toml`, with its first case and others at equal distances; more where points and secrets
are protected, and only one case of a slow test.
"""

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings

TRUST = ("tests/attacks/", "tests/autograder/judging/test_plain.py", "tests/autograder/judging/test_wire.py")
SHARE_OF_TRUST = 6  # run a sixth of the cases of a test that protects trust
WHOLE_ONLY = tomllib.loads(Path(__file__).with_name("whole_only.toml").read_text(encoding="utf-8"))
LONGEST = ("tests/autograder/matrices/test_own_solutions.py", "tests/autograder/matrices/test_kill_matrix.py")
FIRST = (*LONGEST, "tests/attacks/", "tests/browser/")  # so that no process is left with one of them at the end
WHOLE = bool(os.environ.get("WHOLE"))  # all known answers are judged, and twenty times as many hostile values drawn
HOSTILE_VALUES = settings(max_examples=10_000 if WHOLE else 500, deadline=None, derandomize=not WHOLE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cases N`: 2 for `make test`, 1 for FAST=1, none for WHOLE=1 and WEEK=."""
    parser.addoption("--cases", type=int, help="at most N cases of each test, the same on every commit")


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the cases, and run the slowest files first."""
    most, by_test = config.getoption("cases"), dict[str, list[pytest.Item]]()
    for item in items:
        by_test.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = {id(item) for test, cases in by_test.items() for item in (_some(test, cases, most) if most else cases)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


def _some(test: str, cases: list[pytest.Item], most: int) -> list[pytest.Item]:
    if test.rsplit("::", maxsplit=1)[-1] in WHOLE_ONLY:
        return []
    if cases[0].get_closest_marker("every_case"):
        return cases
    if cases[0].get_closest_marker("slow"):
        return cases[:1]
    if test.startswith(TRUST) and most > 1:
        most = max(most, -(-len(cases) // SHARE_OF_TRUST))
    return cases[:: -(-len(cases) // most)]
