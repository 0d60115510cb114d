"""Levels of isolation that tests need. A test fails if its level does not start although an engine is installed."""

import os
import shutil

import pytest

from autograder.sandboxes import containers, zygote

KNOWN = "TESTS_WITHOUT_LEVELS"  # such as "2" or "3 2": levels known not to start on this machine


def require(level: int | None = None) -> None:
    """Run the test only if this level of isolation starts; without a level, only if official grades are possible."""
    if level is not None:
        go_on(level, zygote.why_not(level))
    elif zygote.level() < zygote.OFFICIAL:
        for one in filter(is_installed, (3, 2)):
            go_on(one, zygote.why_not(one))
        pytest.skip(f"nothing isolates a submission here: {zygote.missing() or 'AUTOGRADER_LEVEL lowers the level'}")


def go_on(level: int, reason: str | None) -> None:
    """If a level does not start for some reason, fail the test where the level is installed, else skip it."""
    if reason is None:
        return
    reason = f"level {level} does not start here: {reason}"
    if is_installed(level) and str(level) not in os.environ.get(KNOWN, "").split():
        pytest.fail(f"{reason}. If this is expected, set {KNOWN}={level}.", pytrace=False)
    pytest.skip(reason)


def is_installed(level: int) -> bool:
    """Return whether a program for a level is installed."""
    programs = {3: ["bwrap"], 2: [engine[0] for engine in containers.ENGINES]}[level]
    return any(shutil.which(program) for program in programs)
