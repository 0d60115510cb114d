"""A rank of a job as it is before its first line of student code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autograder.jobs.mapped import Replaced
from autograder.jobs.message import Request

Groups = Mapping[tuple[int, int], int]  # of each connection, by its ports, the number of its group
Seal = Callable[..., None]  # closes the last doors; takes the groups of connections


@dataclass
class Seat:
    """What a rank knows: the request, the answer, and `mine`, its own input: {"args", "groups", …}, or None if it only

    watches. An observer may replace what is in it.
    """

    rank: int
    request: Request
    answer: dict[str, Any]
    mine: Any
    groups: Groups = field(default_factory=dict)
    replaced: Replaced | None = None  # pages that it maps again when the function has returned
