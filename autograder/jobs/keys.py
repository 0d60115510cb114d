"""Numbers that a backward needs and must ask for, one after the other: who asks shows how far the backward has come.

A rank cannot show from inside when it computes what. So the supervisor keeps a number for every layer of every backward
(`marked` multiplies the gradient by it), hands it out when the rank asks, and notes how many of the rank's all-reduces
have been on the wire by then. It waits a moment for those that are due, as the library sends them from another thread.
Ranks other than 0 get the number of a layer when rank 0 has asked for that of the next: who waits in between for an
all-reduce of all ranks waits forever.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from typing import Any

from autograder.jobs import parcels, plain

PATIENCE = 1.0  # seconds that a number is held back for an all-reduce that is due
_QUESTION, _NUMBER = struct.Struct("<i"), struct.Struct("<f")


class Keys:
    """One for a job: made before the ranks are forked, served while they run, `asked` after they end.

    `parcel` holds {"numbers": numbers of each rank in the order of the asking, "due": all-reduces that must have begun
    before each, "layers": layers of one backward}, or None. It is opened once no rank can inherit what it says.
    """

    def __init__(self, parcel: int, num_ranks: int, num_started: Callable[[int], int | None]) -> None:
        self._parcel = parcel
        self._num_started = num_started
        self._pipes = [(*os.pipe(), *os.pipe()) for _ in range(num_ranks)]
        for question, *_ in self._pipes:
            os.set_blocking(question, False)
        self._plan: dict[str, Any] | None = None
        self._waiting: dict[int, tuple[float, int]] = {}  # by rank: since when, and what it says it has started
        self.asked: list[list[int]] = [[] for _ in range(num_ranks)]

    def keep_own(self, rank: int) -> Callable[[int], float]:
        """In a rank: keep its own ends alone. Returns what asks for the next number, given all-reduces so far."""
        for other, ends in enumerate(self._pipes):
            for place, descriptor in enumerate(ends):
                if other != rank or place in (0, 3):
                    os.close(descriptor)
        _, question, answer, _ = self._pipes[rank]

        def ask(num_started: int) -> float:
            os.write(question, _QUESTION.pack(num_started))
            return _NUMBER.unpack(parcels.read_exactly(answer, _NUMBER.size) or bytes(_NUMBER.size))[0]

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
        if plan is None or turn >= len(plan["numbers"][rank]):
            return False  # nobody needs more: whoever asks all the same waits forever
        is_first_layer = (turn + 1) % plan["layers"] == 0
        if rank > 0 and not is_first_layer and len(self.asked[0]) + (0 in self._waiting) < turn + 2:
            return False
        since, _ = self._waiting[rank]
        return self._started(rank) >= plan["due"][turn] or time.monotonic() - since > PATIENCE

    def _hand_out(self, rank: int, answer: int) -> None:
        number = self._opened()["numbers"][rank][len(self.asked[rank])]  # type: ignore[index]
        self.asked[rank].append(self._started(rank))
        del self._waiting[rank]
        os.write(answer, _NUMBER.pack(number))

    def _started(self, rank: int) -> int:
        """All-reduces that this rank has begun: seen on the wire, or its own word where nobody can look."""
        seen = self._num_started(rank)
        return self._waiting[rank][1] if seen is None else seen

    def _opened(self) -> dict[str, Any] | None:
        if self._plan is None:
            self._plan = plain.decode(parcels.content(self._parcel))
        return self._plan
