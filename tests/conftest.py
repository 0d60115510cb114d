"""What all tests share: whatever they start ends with them."""

import sys

import psutil
import pytest

from tests import levels


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.sandbox(3)` needs level 3 of isolation."""
    for mark in item.iter_markers("sandbox"):
        for level in mark.args:
            levels.require(level)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Close this session's warm worker and sandbox, and fail the run if a process of ours is left."""
    warm = sys.modules.get("shardlab.ranks.warm")
    if warm is not None and warm._worker is not None:
        warm._worker.close()
    self_check = sys.modules.get("autograder.self_check")
    if self_check is not None:
        self_check.close()
    left = [child for child in psutil.Process().children(recursive=True) if "shardlab" in " ".join(child.cmdline())]
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nleft behind: {left}")
