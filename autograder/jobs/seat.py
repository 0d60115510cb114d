"""The state of a rank before its first line of student code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autograder.jobs.mapped import Replaced
from autograder.jobs.message import Request

Groups = Mapping[tuple[int, int], int]  # {ports of a connection: number of its group}
Seal = Callable[..., None]  # completes the confinement; takes the groups of connections


@dataclass
class Seat:
    """The data that a rank has: the request, the answer and its own input.

    `mine` is the input, {"args", "groups", …}, or None for a rank that only watches. Observers may change a seat.
    """

    rank: int
    request: Request
    answer: dict[str, Any]
    mine: Any
    groups: Groups = field(default_factory=dict)
    replaced: Replaced | None = None  # pages that are mapped again when the function has returned
