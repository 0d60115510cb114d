"""What CI takes a sample of, another one with every commit; `make test WHOLE=1` takes all of it."""

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

from autograder.matrices import sample

Item = TypeVar("Item")
WHOLE = bool(os.environ.get("WHOLE"))
HOSTILE_VALUES = settings(max_examples=10_000 if WHOLE else 2_000, deadline=None, derandomize=False)


def half(name: str, cases: Sequence[Item]) -> list[Item]:
    """Half of the cases, those of this commit; all of them in a whole run."""
    return sample.some(sample.of_this_commit(name), cases, len(cases) if WHOLE else (len(cases) + 1) // 2)
