"""The messages of one rank: posted in order, waited for when needed, kept until they are through."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.pipeline_parallel.communication import Message, MessageBatch
from shardlab.pipeline_parallel.schedule import Action, Kind
from shardlab.pipeline_parallel.stages import Stage


class _Arrival(NamedTuple):
    """A message on its way in: the buffer, the one for its name, and what to wait for."""

    buffer: Tensor
    name: Tensor | None
    works: list[dist.Work]


class Mailbox:
    """Holds the results that this rank has computed or is receiving.

    group: all messages go through it, addressed by rank in the group; tags are not used, NCCL has none.
    verify: send a name before each message and compare it on arrival; messages of one shape can be swapped unseen.
    """

    def __init__(self, stages: Mapping[int, Stage], *, group: dist.ProcessGroup | None, verify: bool = False) -> None:
        self._stages, self._group, self._verify = stages, group, verify
        self._rank = dist.get_rank(group)
        self._results: dict[Action, Tensor] = {}
        self._arriving: dict[Action, _Arrival] = {}
        self._leaving: list[tuple[Tensor, dist.Work]] = []  # a buffer must live until its send is through

    def put(self, result: Action, tensor: Tensor) -> None:
        """Keep a result for a later stage of this rank, or until it is posted."""
        self._results[result] = tensor

    def take(self, result: Action) -> Tensor:
        """The result, as soon as it is here."""
        if result in self._results:
            return self._results.pop(result)
        buffer, name, works = self._arriving.pop(result)
        for work in works:
            work.wait()
        if name is not None and name.tolist() != _name_of(result, buffer).tolist():
            letter, stage, microbatch, _ = name.tolist()
            raise RuntimeError(
                f"rank {self._rank} waits for {result} and got {stage}{chr(letter)}{microbatch}: the two ranks list "
                "their messages in different orders"
            )
        return buffer

    def post(self, batch: MessageBatch) -> None:
        """Start every send and receive of the batch; wait for none."""
        operations: list[dist.P2POp] = []
        owners: list[Message] = []  # of each operation
        for message in batch.messages:
            leaves = message.source == self._rank
            tensor = self._results.pop(message.result).contiguous() if leaves else self._buffer(message)
            name = _name_of(message.result, tensor) if self._verify else None
            if not leaves:
                name = None if name is None else torch.empty_like(name)
                self._arriving[message.result] = _Arrival(tensor, name, [])
            peer = message.destination if leaves else message.source
            for part in (tensor,) if name is None else (name, tensor):
                operation = dist.isend if leaves else dist.irecv
                operations.append(dist.P2POp(operation, part, group=self._group, group_peer=peer))
                owners.append(message)

        works = dist.batch_isend_irecv(operations)
        if len(works) < len(operations):  # gloo gives one work per message, NCCL one for all
            works = works * len(operations)
        for operation, message, work in zip(operations, owners, works, strict=True):
            if message.source == self._rank:
                self._leaving.append((operation.tensor, work))
            else:
                self._arriving[message.result].works.append(work)
        self._leaving = [(tensor, work) for tensor, work in self._leaving if not work.is_completed()]

    def finish(self) -> None:
        """Wait until everything sent has left."""
        for _, work in self._leaving:
            work.wait()
        self._leaving.clear()

    def _buffer(self, message: Message) -> Tensor:
        stage = self._stages[message.user.stage]
        of_kind = stage.empty_activation if message.result.kind is Kind.F else stage.empty_gradient
        return of_kind(message.result.microbatch)


def _name_of(result: Action, tensor: Tensor) -> Tensor:
    return torch.tensor([ord(result.kind.value), result.stage, result.microbatch, tensor.numel()], device=tensor.device)
