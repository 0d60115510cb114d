"""Shared by all tests: one judge with one sandbox, levels of isolation, and a check that no process remains."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psutil
import pytest
import torch
from shardlab.own import finder

from autograder import weeks
from autograder.judging.judge import Judge, Verdict
from autograder.matrices import known
from autograder.matrices.kill_matrix import PREAMBLE
from tests import levels

pytest_plugins = ["pytester", "tests.fixed_set"]

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # torch's idle threads spin, which took a fifth of the machine from the ranks


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Close this process's worker and sandbox after its last test. Any process still running is an error."""
    yield
    worker = getattr(sys.modules.get("shardlab.ranks.warm"), "_worker", None)
    for owner in (worker, sys.modules.get("autograder.judging.self_check")):
        if owner is not None:
            owner.close()
    commands = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # includes ZombieProcess
            commands.append(" ".join(child.cmdline()))
    assert [one for one in commands if "shardlab" in one] == [], "left behind"


@pytest.fixture(autouse=True)
def mine_is_read_from_files_again() -> Iterator[None]:
    """Forget what a sandbox job in this process served as `mine`, which would hide the course's from the next test."""
    yield
    finder.serve(None)


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """One judge for all tests of a process: its sandbox, which imports torch, is started only once."""
    with Judge() as one:
        yield one


@pytest.fixture(scope="session")
def judged(judge: Judge) -> Callable[..., Verdict]:
    """`judged("week05.bill", "logits_in_float32")` is the verdict on that known answer; a check can be changed."""

    def verdict_on(exercise: str, name: str, seed: int = 3, **changes: Any) -> Verdict:
        answer = {"preamble": PREAMBLE, "cells": [[exercise, known.find(exercise, name).source, True]]}
        return judge.judge(replace(weeks.find(exercise), **changes), answer, seed=seed)

    return verdict_on


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.isolated(3)` requires level 3 of isolation, `@pytest.mark.isolated` level 3 or 2."""
    for mark in item.iter_markers("isolated"):
        levels.require(*mark.args)
