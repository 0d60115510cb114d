"""`pytest --sample`, as CI runs: of a test with many cases a third, other ones with every commit.

`make test WHOLE=1` runs all of them. A test marked `every_case` runs whole in every run, and one marked `sampled` takes
a sample of its own.
"""

import os

import pytest
from hypothesis import settings

from autograder.matrices import sample

WHOLE = bool(os.environ.get("WHOLE"))
HOSTILE_VALUES = settings(max_examples=10_000 if WHOLE else 2_000, deadline=None, derandomize=False)
FEW = 4  # cases that a test runs at least
OF_THEIR_OWN = ("every_case", "sampled")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--sample`, which `make test` gives but for FAST=1, WHOLE=1 and WEEK=."""
    parser.addoption("--sample", action="store_true", help="of a test with many cases a third")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect two thirds of the cases of every test that has more than a few."""
    if not config.getoption("sample"):
        return
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = {id(item) for test, cases in by_test.items() for item in _of_test(test, cases)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _of_test(test: str, cases: list[pytest.Item]) -> list[pytest.Item]:
    if len(cases) <= FEW or any(cases[0].get_closest_marker(name) for name in OF_THEIR_OWN):
        return cases
    return sample.some(sample.of_this_commit(test), cases, max(FEW, (len(cases) + 2) // 3))
