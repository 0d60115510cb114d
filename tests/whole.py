"""`pytest --sample`, as CI runs: a sixth of a test's cases where there are many, and a fifth of the slow tests.

Which ones, the commit decides, so that three dozen commits try nearly everything. Tests of a file marked `together`
share what takes long, a browser or a built site: all of them run, or none.

`make test WHOLE=1` runs all of them. A test marked `every_case` runs whole in every run, and one marked `sampled` takes
a sample of its own.
"""

import os

import pytest
from hypothesis import settings

from autograder.matrices import sample

WHOLE = bool(os.environ.get("WHOLE"))
HOSTILE_VALUES = settings(max_examples=10_000 if WHOLE else 2_000, deadline=None, derandomize=False)
FEW = 3  # cases that a test runs at least; a slow one runs one, or none
SHARE, OF_SLOW = 6, 1 / 5  # one of so many cases; the chance of a slow test
OF_THEIR_OWN = ("every_case", "sampled")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--sample`, which `make test` gives but for FAST=1, WHOLE=1 and WEEK=."""
    parser.addoption("--sample", action="store_true", help="a sixth of many cases; a fifth of the slow tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect most cases of every test that has more than a few, or is slow."""
    if not config.getoption("sample"):
        return
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        file, _, test = item.nodeid.partition("::")
        test = file if item.get_closest_marker("together") else f"{file}::{test.split('[')[0]}"
        by_test.setdefault(test, []).append(item)
    kept = {id(item) for test, cases in by_test.items() for item in _of_test(test, cases)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _of_test(test: str, cases: list[pytest.Item]) -> list[pytest.Item]:
    if any(cases[0].get_closest_marker(name) for name in OF_THEIR_OWN):
        return cases
    numbers, share = sample.of_this_commit(test), -(-len(cases) // SHARE)
    if cases[0].get_closest_marker("slow") is None:
        return sample.some(numbers, cases, max(FEW, share))
    if numbers.random() >= OF_SLOW:
        return []
    return cases if cases[0].get_closest_marker("together") else sample.some(numbers, cases, share)
