"""`pytest --fast`: what tells most in three minutes; no browser, nothing slow, and of a test with many cases one.

A dozen of the cases marked `sampled` run, the same on every commit, so that more weeks do not make it longer.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from autograder.matrices import sample

NUM_SAMPLED = 12


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--fast`, which `make test FAST=1` gives."""
    parser.addoption("--fast", action="store_true", help="no browser, nothing slow, one case of each test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is slow; of each parametrized test keep the first case."""
    if not config.getoption("fast"):
        return
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.split("[")[0], item)
    sampled = [item for item in items if item.get_closest_marker("sampled")]
    kept = {id(item) for item in first.values() if _is_quick(item)}
    kept |= {id(item) for item in sample.some(sample.fixed("fast"), sampled, NUM_SAMPLED)}
    left_out = [item for item in items if id(item) not in kept]
    config.hook.pytest_deselected(items=left_out)
    gone = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in gone]


def _is_quick(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(name) for name in ("slow", "browser"))


def asked_for(cases: Sequence[Any], request: pytest.FixtureRequest) -> list[Any]:
    """The named cases for which this run has a test, a parameter `case`, in the module whose fixture asks."""
    tests = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    names = {item.callspec.params["case"].name for item in tests if "case" in item.fixturenames}
    return [case for case in cases if case.name in names]
