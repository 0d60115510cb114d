"""How tests are shared out when several processes run them (`pytest -n 3`): a file at a time, the longest first.

The tests of a file share what they set up; kill matrices are shared out by exercise.
"""

import pytest
import torch

APART = ("tests/autograder/test_kill_matrix.py", "tests/autograder/test_own_solutions.py")  # each test by itself
LONGEST = ("tests/autograder/test_kill", "tests/attacks/", "tests/browser/", "tests/autograder/test_own")


def part_of(nodeid: str) -> str:
    """The name of the part of the suite that a test belongs to; one process runs all tests of a part."""
    file = nodeid.split("::", 1)[0]
    return nodeid if file in APART else file


def pytest_configure(config: pytest.Config) -> None:
    """One thread per process: torch's others wait in a loop, which took a fifth of the machine from the ranks."""
    if hasattr(config, "workerinput"):
        torch.set_num_threads(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no process is left alone with it in the end."""
    unordered = [item.nodeid for item in items if _has_a_set(item)]
    if unordered:
        raise pytest.UsageError(f"A set as a parameter prints in another order in every process: {unordered}")
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        items.sort(key=lambda item: _place(item.nodeid))


def _has_a_set(item: pytest.Item) -> bool:
    """Whether a test's name shows a set, so that two processes may know it by two names."""
    values = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    return any(isinstance(value, set | frozenset) and str(value) in item.name for value in values)


def _place(nodeid: str) -> int:
    return next((place for place, name in enumerate(LONGEST) if nodeid.startswith(name)), len(LONGEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """A scheduler of pytest-xdist that keeps the parts together."""
    from xdist.scheduler import LoadScopeScheduling

    class Parts(LoadScopeScheduling):
        """Gives each process one part after another."""

        def _split_scope(self, nodeid: str) -> str:
            return part_of(nodeid)

    config.option.loadscopereorder = False  # the order is ours
    return Parts(config, log)
