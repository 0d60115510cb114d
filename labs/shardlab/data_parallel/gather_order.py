"""Do all ranks gather the same units in the same order? Units of one size would mix in silence if they did not.

An order that has been agreed on costs one look at the group's store at the end of a pass, and no message. A rank whose
order is a new one leaves a note there *before* it gathers, so that whoever has gathered with it finds the note when the
pass ends; then all ranks compare what they have gathered, in words, before a weight is changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist

MOST_NAMES = 8
PATIENCE = timedelta(seconds=30)  # for ranks that have left the others' order so far that they wait for a gather


class GatherOrder:
    """One rank's gathers, pass by pass: a forward or a backward. names: of what is gathered, by its number."""

    def __init__(self, names: Sequence[str], group: dist.ProcessGroup | None) -> None:
        self._names, self._group = names, group
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        store = dist.distributed_c10d._world.pg_map[group or dist.distributed_c10d._get_default_group()][1]
        number = store.add(f"zero3-{self._rank}", 1)  # every rank wraps the same models, one after the other
        self._store = dist.PrefixStore(f"zero3-{number}", store)
        self._known: set[tuple[int, ...]] = {()}
        self._pass: tuple[int, ...] = ()
        self._noted, self._talks = False, 0

    def record(self, number: int) -> None:
        """Call it before a gather: a beginning that was never agreed on is noted."""
        self._pass = (*self._pass, number)
        if self._pass not in self._known and not self._noted and self._size > 1:
            self._store.set(self._note, "")
            self._noted = True

    def end_pass(self) -> None:
        """Compare with the others if some rank has left a note. Raises ValueError, on every rank alike."""
        if self._size > 1 and (self._noted or self._store.check([self._note])):
            self._compare()
        self._pass, self._noted = (), False

    def forget(self) -> None:
        """Begin a new pass after one that was given up."""
        self._pass = ()

    @property
    def _note(self) -> str:
        return f"note-{self._talks}"

    def _compare(self) -> None:
        mine, talk = self._pass, self._talks
        self._talks, self._pass, self._noted = talk + 1, (), False
        keys = [f"said-{talk}-{rank}" for rank in range(self._size)]
        self._store.set(keys[self._rank], json.dumps(mine))
        try:
            self._store.wait(keys, PATIENCE)
        except dist.DistStoreError:
            raise ValueError(
                f"rank {self._rank} gathered {self._named(mine)}, and others still gather. {_REMEDY}"
            ) from None
        said = [tuple(json.loads(self._store.get(key))) for key in keys]
        other = next((rank for rank, theirs in enumerate(said) if theirs != said[0]), None)
        if other is not None:
            theirs, first = self._named(said[other]), self._named(said[0])
            raise ValueError(f"rank {other} gathered {theirs} where rank 0 gathered {first}. {_REMEDY}")
        self._known |= {mine[:length] for length in range(1, len(mine) + 1)}

    def _named(self, order: tuple[int, ...]) -> str:
        names = [self._names[number] for number in order]
        shown = names if len(names) <= MOST_NAMES else [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"]
        return ", ".join(shown) or "nothing"


_REMEDY = "No weight was changed; a model that ZeRO-3 cuts must use the same units in the same order on every rank"
