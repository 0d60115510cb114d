"""What all tests share: one judge with one sandbox, levels of isolation, and an end that leaves nothing."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder import weeks
from autograder.judging.judge import Judge, Verdict
from autograder.matrices import known
from autograder.matrices.kill_matrix import PREAMBLE
from tests import levels

pytest_plugins = [
    "pytester",
    "tests.at_the_end",
    "tests.fast",
    "tests.left_behind",
    "tests.side_by_side",
    "tests.whole",
]


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """One judge for all tests of a process: its sandbox, which imports torch, is started once."""
    with Judge() as one:
        yield one


@pytest.fixture(scope="session")
def judged(judge: Judge) -> Callable[..., Verdict]:
    """`judged("week05.bill", "logits_in_float32")` is the verdict on that known answer; or of a changed check."""

    def verdict_on(exercise: str, name: str, seed: int = 3, **changes: Any) -> Verdict:
        answer = {"preamble": PREAMBLE, "cells": [[exercise, known.find(exercise, name).source, True]]}
        return judge.judge(replace(weeks.find(exercise), **changes), answer, seed=seed)

    return verdict_on


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """pytest's own, whose processes find the plugins of `tests`."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    return pytester


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.sandbox(3)` needs level 3 of isolation, `@pytest.mark.isolated` level 3 or 2."""
    for mark in item.iter_markers("sandbox"):
        for level in mark.args:
            levels.require(level)
    if item.get_closest_marker("isolated"):
        levels.require_any()
