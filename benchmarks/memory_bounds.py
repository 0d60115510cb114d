"""Memory bounds under load: no correct answer may be refused, and every wrong answer that a bound targets must fail.

Only the memory case is judged, while a background program keeps every core busy. The environment variable
`JUDGEMENTS=50` sets how often each exercise's correct answers are judged, in turn; each wrong one is judged 5 times.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from multiprocessing import Process
from random import Random

from autograder import weeks
from autograder.checks.base import Check
from autograder.judging.judge import Judge, Verdict
from autograder.matrices import known
from autograder.matrices.kill_matrix import PREAMBLE
from autograder.matrices.known import Known
from benchmarks.row import Row, at_most

JUDGEMENTS = int(os.environ.get("JUDGEMENTS", "50"))
OF_A_WRONG_ONE = 5
HELD_TOO_MUCH = {  # wrong answers that allocate too much at once
    "week03.zero1": ("replicated_but_correct", "slice_is_a_view"),
    "week03.zero2": ("after_the_backward", "keeps_a_list", "not_freed", "views_of_full_gradients"),
    "week03.tied": ("after_the_backward", "not_freed"),
    "week04.step": (
        "autograd_keeps_them",
        "gathers_everything_first",
        "gathers_everything_twice",
        "holds_whole_gradients",
        "keeps_what_it_gathers",
        "one_large_gather",
    ),
}


def measure() -> list[Row]:
    """Return two rows per exercise; print every wrong verdict to standard error."""
    rows: list[Row] = []
    with _busy_cores(), Judge() as judge:
        for exercise, wrong in HELD_TOO_MUCH.items():
            check = weeks.find(exercise)
            answers = {one.name: one for one in known.answers_of(exercise)}
            right = islice(cycle(one for one in answers.values() if one.is_right), JUDGEMENTS)
            refused = [one.name for seed, one in enumerate(right) if not _judged(judge, check, one, seed).is_right]
            tries = [(answers[name], seed) for name in wrong for seed in range(OF_A_WRONG_ONE)]
            alive = [one.name for one, seed in tries if _judged(judge, check, one, seed).is_right]
            rows.append(at_most(f"{exercise}: of {JUDGEMENTS} judgements of right answers, refused", len(refused), 0))
            rows.append(at_most(f"{exercise}: of {len(tries)} judgements of wrong answers, passed", len(alive), 0))
    return rows


def _judged(judge: Judge, check: Check, one: Known, seed: int) -> Verdict:
    """Return the verdict on the memory case alone; its message shows whether memory use failed a wrong answer."""
    case = [drawn for drawn in [*check.public, *check.draw(Random(seed))] if drawn.get("part") == "memory"][-1]
    answer = {"preamble": PREAMBLE, "cells": [[check.exercise, one.source, True]]}
    verdict = judge.judge(check, answer, seed, cases=[case])
    print(f"{check.exercise} {one.name} {seed}: {verdict.text.splitlines()[0]}", file=sys.stderr, flush=True)
    return verdict


@contextmanager
def _busy_cores() -> Iterator[None]:
    """Run one process per core that burns CPU time."""
    burners = [Process(target=_burn, daemon=True) for _ in range(os.cpu_count() or 1)]
    for burner in burners:
        burner.start()
    yield
    for burner in burners:
        burner.kill()
        burner.join()


def _burn() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            pass
