"""Whatever a test process starts ends with it: what is left when its tests are done fails the run, on any worker."""

import sys

import psutil
import pytest

LEFT = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is left so far."""
    config.stash[LEFT] = []


@pytest.hookimpl(trylast=True)  # after what tests set up has been taken down
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Close this process's warm worker and sandbox; what then still runs below it fails the run.

    A worker of pytest-xdist tells the process that started it.
    """
    left = session.config.stash[LEFT]
    if not session.config.getoption("numprocesses", None):  # else the workers have looked, each below itself
        _close()
        found = psutil.Process().children(recursive=True)
        left += [str(child) for child in found if "shardlab" in _command(child)]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = left
    elif left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error: object) -> None:
    """A worker has ended: note what it left behind."""
    node.config.stash[LEFT] += getattr(node, "workeroutput", {}).get("left", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the processes that were left."""
    for process in terminalreporter.config.stash[LEFT]:
        terminalreporter.line(f"left behind: {process}", red=True)


def _command(process: psutil.Process) -> str:
    """Its command line; none of a process that has ended and that its parent has not asked for yet."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # ZombieProcess is one of them
        return ""


def _close() -> None:
    warm = sys.modules.get("shardlab.ranks.warm")
    if warm is not None and warm._worker is not None:
        warm._worker.close()
    self_check = sys.modules.get("autograder.judging.self_check")
    if self_check is not None:
        self_check.close()
