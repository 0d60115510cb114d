"""Check that all ranks gather the same units in the same order. Otherwise units of equal size would silently mix.

Each rank predicts the order of the next pass (a forward or a backward): the one that followed the last two passes when
they last occurred. As long as that holds, the check costs one lookup in the group's store at the end of a pass, and no
message. A rank that deviates writes a note to the store *before* it gathers, so the ranks that gather with it find the
note when the pass ends. Then all ranks compare by name what they have gathered, before any weight is changed. Every
past order was predicted or compared, so all ranks predict the same. A note belongs to one pass: a rank that is ahead
leaves it for a pass that the others have not yet begun.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist

MOST_NAMES = 8
PATIENCE = timedelta(seconds=30)  # how long to wait for ranks that gather more than this one
REMEDY = "No weight was changed. A model under ZeRO-3 must use the same units in the same order on every rank"
Order = tuple[int, ...]


class GatherOrder:
    """One rank's gathers in each pass. names: of the gathered units, by number."""

    def __init__(self, names: Sequence[str], group: dist.ProcessGroup | None) -> None:
        self._names, self._rank, self._size = names, dist.get_rank(group), dist.get_world_size(group)
        store = dist.distributed_c10d._world.pg_map[group or dist.distributed_c10d._get_default_group()][1]
        number = store.add(f"zero3-{self._rank}", 1)  # every rank wraps the same models, one after the other
        self._store = dist.PrefixStore(f"zero3-{number}", store)
        self._before: tuple[Order, ...] = ()  # the last two passes
        self._next: dict[tuple[Order, ...], Order] = {}  # the pass that last followed these two
        self._pass: Order = ()
        self._number, self._noted = 0, False  # of this pass; whether this rank left a note in it

    def record(self, number: int) -> None:
        """Record a gather. Call it before the gather."""
        self._pass = (*self._pass, number)
        if self._next.get(self._before, ())[: len(self._pass)] != self._pass:
            self._leave_note()

    def end_pass(self) -> None:
        """Compare with other ranks if any rank left a note. Raises ValueError on every rank if the orders differ."""
        if self._next.get(self._before) != self._pass:
            self._leave_note()
        if self._noted or (self._size > 1 and self._store.check([f"note-{self._number}"])):
            self._compare(self._number)
        self._number, self._noted = self._number + 1, False
        self._next[self._before] = self._pass
        self._before, self._pass = (*self._before, self._pass)[-2:], ()

    def forget(self) -> None:
        """Start a new pass after one that was aborted."""
        self._pass = ()

    def _leave_note(self) -> None:
        if not self._noted and self._size > 1:
            self._store.set(f"note-{self._number}", "")
            self._noted = True

    def _compare(self, number: int) -> None:
        keys = [f"said-{number}-{rank}" for rank in range(self._size)]
        self._store.set(keys[self._rank], json.dumps(self._pass))
        try:
            self._store.wait(keys, PATIENCE)
        except RuntimeError:  # the store timed out: some ranks did not answer
            mine = f"rank {self._rank} gathered {self._named(self._pass)}"
            raise ValueError(f"{mine}, but other ranks are still gathering. {REMEDY}") from None
        said = [self._named(json.loads(self._store.get(key))) for key in keys]
        other = next((rank for rank, theirs in enumerate(said) if theirs != said[0]), None)
        if other is not None:
            raise ValueError(f"rank {other} gathered {said[other]}, but rank 0 gathered {said[0]}. {REMEDY}")

    def _named(self, order: Sequence[int]) -> str:
        names = [self._names[number] for number in order]
        shown = names if len(names) <= MOST_NAMES else [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"]
        return ", ".join(shown) or "nothing"
