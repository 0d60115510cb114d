"""Choose the rows that CI judges: a fixed sample, the same on every commit."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def fixed(name: str) -> Random:
    """Random numbers that depend only on the name of the sample."""
    return Random(name)


def some(rng: Random, items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` of the items, in their order."""
    chosen = sorted(rng.sample(range(len(items)), min(most, len(items))))
    return [items[place] for place in chosen]
