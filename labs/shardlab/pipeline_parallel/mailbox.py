"""The messages of one rank: posted in order, waited for when needed, kept until they have arrived.

Gloo's isend completes only when waited for, so how do we know that a message has arrived? It is kept until the receiver
answers: a result that the receiver computed after using the message proves that the message arrived.
"""

from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.pipeline_parallel.agreement import NOTHING_KNOWN, Agreement
from shardlab.pipeline_parallel.communication import Message, MessageBatch, Program
from shardlab.pipeline_parallel.schedule import Action, Kind, Slot, actions_of, result_of
from shardlab.pipeline_parallel.stages import Stage


class _Arrival(NamedTuple):
    """An incoming message: its buffer, the buffer for its name, and the works to wait for."""

    message: Message
    buffer: Tensor
    name: Tensor | None
    works: list[dist.Work]


class _Departure(NamedTuple):
    """An outgoing message. Its tensor must stay alive until the send is done. alone: no other send shares the work."""

    message: Message
    buffer: Tensor
    work: dist.Work
    alone: bool


class Mailbox:
    """Holds the results that this rank has computed or is receiving.

    program: of all ranks. group: used for all messages, which are addressed by rank in the group, without tags, as in
    NCCL. verify: send a name before each message and compare it on arrival, since messages of equal shape can be
    swapped unnoticed. agreement: the input that each stage expects. Sending anything else raises ValueError.
    """

    def __init__(
        self,
        stages: Mapping[int, Stage],
        program: Program,
        *,
        group: dist.ProcessGroup | None,
        verify: bool = False,
        agreement: Agreement = NOTHING_KNOWN,
    ) -> None:
        self._stages, self._group, self._verify, self._agreement = stages, group, verify, agreement
        self._rank = dist.get_rank(group)
        self._results: dict[Action, Tensor] = {}
        self._arriving: dict[Action, _Arrival] = {}
        self._leaving: list[_Departure] = []
        self._program = program
        self._places: dict[int, dict[Action, int]] = {}  # for each rank that has answered

    def put(self, result: Action, tensor: Tensor) -> None:
        """Keep a result for a later stage of this rank, or until it is posted."""
        self._results[result] = tensor

    def take(self, result: Action) -> Tensor:
        """The result, waiting for it if necessary."""
        if result in self._results:
            return self._results.pop(result)
        message, buffer, name, works = self._arriving.pop(result)
        for work in works:
            work.wait()
        if name is not None and name.tolist() != _name_of(result, buffer).tolist():
            letter, stage, microbatch, _ = name.tolist()
            raise RuntimeError(
                f"rank {self._rank} waits for {result} but got {stage}{chr(letter)}{microbatch}: the two ranks list "
                "their messages in different orders"
            )
        self._forget_answered(message)
        return buffer

    def post(self, batch: MessageBatch) -> None:
        """Start every send and receive of the batch without waiting."""
        operations: list[dist.P2POp] = []
        owners: list[Message] = []  # of each operation
        for message in batch.messages:
            leaves = message.source == self._rank
            tensor = self._leaving_tensor(message.result) if leaves else self._buffer(message)
            name = _name_of(message.result, tensor) if self._verify else None
            if not leaves:
                name = None if name is None else torch.empty_like(name)
                self._arriving[message.result] = _Arrival(message, tensor, name, [])
            peer = message.destination if leaves else message.source
            for part in (tensor,) if name is None else (name, tensor):
                operation = dist.isend if leaves else dist.irecv
                operations.append(dist.P2POp(operation, part, group=self._group, group_peer=peer))
                owners.append(message)

        works = dist.batch_isend_irecv(operations)
        alone = len(works) == len(operations)
        if not alone:  # gloo returns one work per message, NCCL one for all
            works = works * len(operations)
        for operation, message, work in zip(operations, owners, works, strict=True):
            if message.source == self._rank:
                self._leaving.append(_Departure(message, operation.tensor, work, alone))
            else:
                self._arriving[message.result].works.append(work)
        self._leaving = [one for one in self._leaving if not one.work.is_completed()]

    def finish(self) -> None:
        """Wait until all sends are done."""
        for one in self._leaving:
            one.work.wait()
        self._leaving.clear()

    def _forget_answered(self, answer: Message) -> None:
        """Drop the messages that the answer proves were received: waiting for these sends returns at once."""
        peer = answer.source
        if peer not in self._places:
            self._places[peer] = _places(self._program[peer])
        places = self._places[peer]

        still = []
        for one in self._leaving:
            came = one.message.destination == peer and places[one.message.user] <= places[answer.result]
            if came and one.alone:
                one.work.wait()
            else:
                still.append(one)
        self._leaving = still

    def no_gradient(self, stage: int, microbatch: int) -> Tensor:
        """Zeros to send if a stage returns no gradient. Raises ValueError if an earlier stage needs one."""
        if cut_off := self._agreement.cut_off(stage):
            raise ValueError(
                f"rank {self._rank}: stage {stage} returns no gradient for its input of microbatch {microbatch}, so "
                f"weights of stage {cut_off[-1]} cannot be trained: compute without detach(), no_grad() and integers "
                f"in stage {stage}, or freeze the stages before it with requires_grad_(False)"
            )
        return self._empty_input(stage, microbatch).zero_()

    def _leaving_tensor(self, result: Action) -> Tensor:
        tensor = self._results.pop(result).contiguous()
        if result.kind is Kind.F:
            self._agreement.check_sent(tensor, result.stage, result.microbatch)
        return tensor

    def _buffer(self, message: Message) -> Tensor:
        user = message.user
        if message.result.kind is Kind.F:
            return self._empty_input(user.stage, user.microbatch)
        return self._stages[user.stage].empty_gradient(user.microbatch)

    def _empty_input(self, stage: int, microbatch: int) -> Tensor:
        return self._agreement.shaped(self._stages[stage].empty_activation(microbatch), stage, microbatch)


def _places(steps: list[Slot | MessageBatch]) -> dict[Action, int]:
    """The step of a rank's program at which each result is computed and its inputs are used."""
    return {
        result: place
        for place, step in enumerate(steps)
        if not isinstance(step, MessageBatch)
        for result in map(result_of, actions_of(step))
        if result is not None
    }


def _name_of(result: Action, tensor: Tensor) -> Tensor:
    return torch.tensor([ord(result.kind.value), result.stage, result.microbatch, tensor.numel()], device=tensor.device)


Pair = tuple[int, int]  # source, destination
_connected: WeakKeyDictionary[dist.ProcessGroup, set[Pair]] = WeakKeyDictionary()


def pairs_of(program: Program) -> set[Pair]:
    """All (source, destination) pairs in the whole program."""
    batches = (step for steps in program for step in steps if isinstance(step, MessageBatch))
    return {(message.source, message.destination) for batch in batches for message in batch.messages}


def connect(program: Program, device: torch.device, *, group: dist.ProcessGroup | None) -> None:
    """Send one element over each connection that this program needs and the group has not made yet.

    NCCL connects two ranks at their first message, and blocks both hosts until the connection is made. In the middle of
    a pipeline this can deadlock: one rank blocks until its neighbor posts, while the neighbor's host waits for a kernel
    to be loaded, which waits for the GPU, which waits for a message from the first rank. So all ranks connect here, in
    one batch, before the first step on GPUs. Every rank must call it. device: this rank's GPU.
    """
    own = dist.group.WORLD if group is None else group
    assert own is not None
    known = _connected.setdefault(own, set())
    new = sorted(pairs_of(program) - known)
    if not new:
        return
    rank, element = dist.get_rank(group), torch.zeros(1, device=device)
    dist.all_reduce(element, group=group)  # one collective before any point-to-point message
    operations = [
        dist.P2POp(dist.isend, element, group=group, group_peer=destination)
        if rank == source
        else dist.P2POp(dist.irecv, torch.empty_like(element), group=group, group_peer=source)
        for source, destination in new
        if rank in (source, destination)
    ]
    for work in dist.batch_isend_irecv(operations) if operations else ():
        work.wait()
    torch.cuda.synchronize(device)
    known.update(new)
