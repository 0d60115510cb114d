"""Keys that a backward must request, one per layer, so that the supervisor sees how far it has come.

A rank cannot prove from inside when it computes something. So the supervisor keeps a key for every layer of every
backward: one random number for each number of the layer's gradient (see `marked`). Without the key, a rank cannot
compute the gradients of this layer or of those below it, and it cannot apply the factor later. The supervisor hands out
a key on request, but only after the all-reduces that are due have carried all their bytes, so that a bucket cannot be
filled later. It records how many were complete. Other ranks get a layer's key once rank 0 has requested the next
layer's, so a rank that waits in between for an all-reduce of all ranks waits forever.
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
    """The keys of one job: created before the ranks are forked and served while they run; read `asked` after they end.

    `parcel` holds None or {"keys": each rank's keys in the order of the requests, "due": how many all-reduces must be
    complete before each, "carried": bytes that all ranks together send in each all-reduce, "layers": layers of one
    backward}. It is read only when no rank can inherit its contents. `all_reduced` returns the bytes that each
    all-reduce has carried so far, or None if they cannot be observed.
    """

    def __init__(self, parcel: int, num_ranks: int, all_reduced: Callable[[], list[int] | None]) -> None:
        self._parcel = parcel
        self._all_reduced = all_reduced
        self._pipes = [(*os.pipe(), *os.pipe()) for _ in range(num_ranks)]
        for question, *_ in self._pipes:
            os.set_blocking(question, False)
        self._plan: dict[str, Any] | None = None
        self._waiting: dict[int, tuple[float, int]] = {}  # by rank: waiting since, claimed all-reduces
        self._is_late = False
        self.asked: list[list[int]] = [[] for _ in range(num_ranks)]

    def keep_own(self, rank: int) -> Callable[[int], torch.Tensor]:
        """In a rank: keep only its own pipes; return a function that gets the next key, given started all-reduces."""
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
        """Read requests, and answer those that need not wait."""
        for rank, (question, _, _, answer) in enumerate(self._pipes):
            self._hear(rank, question)
            if rank in self._waiting and self._may_have(rank):
                self._hand_out(rank, answer)

    def close(self) -> None:
        """Close the pipes."""
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
            return False  # no answer needs more keys: a rank that still asks waits forever
        is_first_layer = (turn + 1) % plan["layers"] == 0
        if rank > 0 and not is_first_layer and len(self.asked[0]) + (0 in self._waiting) < turn + 2:
            return False
        since, _ = self._waiting[rank]
        if self._num_complete(rank) >= plan["due"][turn] or self._is_late:
            return True
        self._is_late = time.monotonic() - since > PATIENCE  # give up waiting: the recorded counts decide
        return self._is_late

    def _hand_out(self, rank: int, answer: int) -> None:
        key = self._opened()["keys"][rank][len(self.asked[rank])].numpy().tobytes()  # type: ignore[index]
        self.asked[rank].append(self._num_complete(rank))
        del self._waiting[rank]
        os.write(answer, parcels.LENGTH.pack(len(key)) + key)

    def _num_complete(self, rank: int) -> int:
        """The all-reduces that are complete on the wire, or the rank's own claim if the wire cannot be observed."""
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
