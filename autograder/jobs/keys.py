"""Keys that a backward needs and must ask for, one after the other: they show how far the backward has come.

A rank cannot show from inside when it computes what. So the supervisor keeps a key for every layer of every backward: a
random number for each number of the layer's gradient (see `marked`). Without the key nobody can compute the gradients
of this layer or of those below it, and no factor can be put in afterwards. The supervisor hands a key out when the rank
asks, and only after the all-reduces that are due have carried all their bytes, so that a bucket cannot be filled later.
It notes how many had. Ranks other than 0 get the key of a layer when rank 0 has asked for that of the next: a rank that
waits in between for an all-reduce of all ranks waits forever.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from typing import Any

import torch

from autograder.jobs import parcels, plain

PATIENCE = 3.0  # seconds that a key is held back for an all-reduce that is due
_QUESTION = struct.Struct("<i")


class Keys:
    """One for a job: made before the ranks are forked, served while they run, `asked` after they end.

    `parcel` holds {"keys": keys of each rank in the order of the asking, "due": all-reduces that must be complete
    before each, "carried": bytes that all ranks together send in each all-reduce, "layers": layers of one backward}, or
    None. It is opened once no rank can inherit what it says. `all_reduced` returns the bytes that each all-reduce has
    carried so far, or None where nobody can look.
    """

    def __init__(self, parcel: int, num_ranks: int, all_reduced: Callable[[], list[int] | None]) -> None:
        self._parcel = parcel
        self._all_reduced = all_reduced
        self._pipes = [(*os.pipe(), *os.pipe()) for _ in range(num_ranks)]
        for question, *_ in self._pipes:
            os.set_blocking(question, False)
        self._plan: dict[str, Any] | None = None
        self._waiting: dict[int, tuple[float, int]] = {}  # by rank: since when, and what it says it has started
        self._is_late = False
        self.asked: list[list[int]] = [[] for _ in range(num_ranks)]

    def keep_own(self, rank: int) -> Callable[[int], torch.Tensor]:
        """In a rank: keep its own ends alone. Returns what asks for the next key, given all-reduces so far."""
        for other, ends in enumerate(self._pipes):
            for place, descriptor in enumerate(ends):
                if other != rank or place in (0, 3):
                    os.close(descriptor)
        _, question, answer, _ = self._pipes[rank]

        def ask(num_started: int) -> torch.Tensor:
            os.write(question, _QUESTION.pack(num_started))
            (length,) = parcels.LENGTH.unpack(parcels.read_exactly(answer, parcels.LENGTH.size) or bytes(8))
            return torch.frombuffer(bytearray(parcels.read_exactly(answer, length) or bytes(4)), dtype=torch.float32)

        return ask

    def serve(self) -> None:
        """Hear who asks, and answer those who need not wait."""
        for rank, (question, _, _, answer) in enumerate(self._pipes):
            self._hear(rank, question)
            if rank in self._waiting and self._may_have(rank):
                self._hand_out(rank, answer)

    def close(self) -> None:
        """Give up the pipes."""
        for ends in self._pipes:
            for descriptor in ends:
                os.close(descriptor)

    def _hear(self, rank: int, question: int) -> None:
        try:
            said = os.read(question, _QUESTION.size)
        except BlockingIOError:
            return
        if len(said) == _QUESTION.size:
            self._waiting[rank] = time.monotonic(), *_QUESTION.unpack(said)

    def _may_have(self, rank: int) -> bool:
        plan, turn = self._opened(), len(self.asked[rank])
        if plan is None or turn >= len(plan["keys"][rank]):
            return False  # nobody needs more: a rank that asks all the same waits forever
        is_first_layer = (turn + 1) % plan["layers"] == 0
        if rank > 0 and not is_first_layer and len(self.asked[0]) + (0 in self._waiting) < turn + 2:
            return False
        since, _ = self._waiting[rank]
        if self._num_complete(rank) >= plan["due"][turn] or self._is_late:
            return True
        self._is_late = time.monotonic() - since > PATIENCE  # what was noted decides: nobody waits again
        return self._is_late

    def _hand_out(self, rank: int, answer: int) -> None:
        key = self._opened()["keys"][rank][len(self.asked[rank])].numpy().tobytes()  # type: ignore[index]
        self.asked[rank].append(self._num_complete(rank))
        del self._waiting[rank]
        os.write(answer, parcels.LENGTH.pack(len(key)) + key)

    def _num_complete(self, rank: int) -> int:
        """All-reduces whose bytes were all seen on the wire; or the rank's own word where nobody can look."""
        carried = self._all_reduced()
        if carried is None:
            return self._waiting[rank][1]
        due = self._opened()["carried"]  # type: ignore[index]
        complete = [seen >= all_bytes for seen, all_bytes in zip(carried, due, strict=False)]
        return [*complete, False].index(False)

    def _opened(self) -> dict[str, Any] | None:
        if self._plan is None:
            self._plan = plain.decode(parcels.content(self._parcel))
        return self._plan
