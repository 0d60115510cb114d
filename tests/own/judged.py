"""Judge an answer to a check of week 15's trainer, with modules of `mine` that the course's pages do not give yet."""

import re
from pathlib import Path

from autograder import weeks
from autograder.matrices.kill_matrix import PREAMBLE
from tests.own.compose import DRAFT, compose

WRAPPERS = (DRAFT / "wrappers.txt").read_text()


def preamble(folder: Path) -> str:
    """Serve these modules to the ranks."""
    modules = {
        path.stem: path.read_text() for path in compose(folder).glob("*.py") if path.stem not in ("train", "__init__")
    }
    return f"{PREAMBLE}from shardlab.own import finder\nfinder.serve({modules!r})\n"


def right() -> str:
    """The trainer as one cell."""
    text = (DRAFT / "train.py").read_text()
    return text[: text.index('if __name__ == "__main__"')] + "\n\n" + WRAPPERS


def judge_answer(judge, exercise: str, source: str, served: str, seed: int = 1, cases=None):
    """The verdict on one cell."""
    check = weeks.find(exercise)
    return judge.judge(check, {"preamble": served, "cells": [[exercise, source, True]]}, seed, cases)


def changed(old: str, new: str) -> str:
    """The trainer with one change, which must apply."""
    source = right()
    assert len(re.findall(re.escape(old), source)) == 1, old
    return source.replace(old, new)
