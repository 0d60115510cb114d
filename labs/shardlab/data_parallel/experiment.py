"""Train a small GPT on real ranks with DDP or a ZeRO stage, and compare the measurements with the formulas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab import meter
from shardlab.costs.memory.states import StateBytes, shard_elements
from shardlab.costs.traffic import ring_all_gather_bytes, zero_bytes
from shardlab.data_parallel.buckets import assign_buckets, in_messages
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from shardlab.meter.alive import alive
from shardlab.meter.held import ModelStates, bytes_held
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss
from shardlab.model.text import batch_of

WARM_UP = 2  # steps that allocate and connect
FP32 = 4


class Engine(NamedTuple):
    """A model to call, an optimizer to step, a count of the bytes held, and the tensors that persist between steps."""

    model: Callable[[Tensor], Tensor]
    optimizer: Any
    held: Callable[[], ModelStates]
    tensors: Callable[[], list[Tensor]]


@dataclass(frozen=True)
class Measured:
    """One rank's measurements. `held` is taken between backward and step. `exposed`: seconds of waiting in a step.

    `peak_bytes`: the peak of live bytes in a step. On a GPU this is the allocator's count.
    """

    losses: list[float]
    seconds: float
    exposed: float
    sent_bytes: float
    num_calls: int
    held: ModelStates
    peak_bytes: int
    largest_unit: int


def build(
    stage: int, config: GPTConfig, group: dist.ProcessGroup | None, *, device: str = "cpu", **options: Any
) -> Engine:
    """DDP for stage 0, otherwise that ZeRO stage. The weights are the same on every rank and for every stage."""
    torch.manual_seed(0)
    model = GPT(config).to(device)
    adam = torch.optim.AdamW
    if stage == 0:
        wrapped = DataParallel(model, group=group)
        optimizer = adam(wrapped.parameters(), lr=1e-3)
        return plain_engine(wrapped, optimizer)
    if stage == 3:
        options["units"] = list(model.blocks)
    zero = {1: Zero1, 2: Zero2, 3: Zero3}[stage](model, adam, group=group, lr=1e-3, **options)
    return Engine(model, zero, zero.held, zero.tensors)


def plain_engine(model: nn.Module, optimizer: torch.optim.Optimizer) -> Engine:
    """An engine made of a module and a torch optimizer."""

    def tensors() -> list[Tensor]:
        states = [value for state in optimizer.state.values() for value in state.values()]
        return [tensor for tensor in (*model.parameters(), *states) if isinstance(tensor, Tensor)]

    return Engine(model, optimizer, lambda: bytes_held(model, optimizer), tensors)


def train(engine: Engine, config: GPTConfig, text: Tensor, *, steps: int, batch: int, group=None) -> Measured:
    """Train, and time every step after the first two. Sent bytes are from the last step, the peak from the second.

    Raises ValueError for less than one step.
    """
    if steps < 1:
        raise ValueError(f"{steps} steps: use 1 or more")
    torch.set_num_threads(1)
    rank, device = dist.get_rank(group), engine.tensors()[0].device
    losses, seconds, exposed, peak = [], [], [], 0
    for step in range(steps + WARM_UP):
        drawn = batch_of(text, step=step, rank=rank, batch=batch, sequence=config.sequence)
        tokens, targets = (tensor.to(device) for tensor in drawn)
        dist.barrier(group=group)
        began = time.perf_counter()
        with meter.record() as bill, most_alive(engine) if step == WARM_UP - 1 else nullcontext() as watched:
            loss = next_token_loss(engine.model(tokens), targets)
            loss.backward()
            held = engine.held()
            engine.optimizer.step()
        engine.optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - began)
        exposed.append(bill.exposed_seconds)
        peak = watched() if watched is not None else peak
    return Measured(
        losses=losses,
        seconds=median(seconds[WARM_UP:]),
        exposed=median(exposed[WARM_UP:]),
        sent_bytes=bill.sent_bytes,
        num_calls=len(bill.events),
        held=held,
        peak_bytes=peak,
        largest_unit=max((one.full.numel() * FP32 for one in getattr(engine.optimizer, "vectors", [])), default=0),
    )


@contextmanager
def most_alive(engine: Engine) -> Iterator[Callable[[], int]]:
    """Watch a block of code. The yielded function returns the peak of live bytes.

    This counts the engine's tensors and those that the block creates. A GPU's allocator also counts other memory, such
    as 32 MiB of workspace for each cuBLAS handle, so memory that was allocated before the block and does not belong to
    the engine is subtracted.
    """
    tensors = engine.tensors()
    if tensors[0].is_cuda:
        own = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
        others = torch.cuda.memory_allocated() - sum(own.values())
        torch.cuda.reset_peak_memory_stats()
        yield lambda: torch.cuda.max_memory_allocated() - others
        return
    with alive(tensors) as watched:
        yield lambda: watched.peak


class Predicted(NamedTuple):
    """A rank's state bytes, and the bytes it sends in a step."""

    held: StateBytes
    sent_bytes: float


def predicted(config: GPTConfig, stage: int, num_ranks: int) -> Predicted:
    """In fp32 a parameter takes 4 bytes of weight, 4 of gradient and 8 of Adam's moments, including padding.

    Adam also stores its step count, 4 bytes for each tensor it updates: a vector, or with DDP a parameter. Stage 3
    keeps the parameters outside the blocks (embeddings, norm, head) for the whole step and gathers them once.
    """
    with torch.device("meta"):
        model = GPT(config)
    parameters = list(model.parameters())
    whole = sum(parameter.numel() for parameter in parameters)
    if stage == 0:
        held = StateBytes(FP32 * whole, FP32 * whole, 2 * FP32 * whole + FP32 * len(parameters))
        return Predicted(held, zero_bytes(num_ranks, FP32 * whole, 0))
    vectors = vector_sizes(model, stage)
    shards = [shard_elements(size, num_ranks)[0] for size in vectors]
    shard = FP32 * sum(shards)
    held = StateBytes(
        parameters=shard if stage == 3 else shard * num_ranks,
        gradients=FP32 * whole if stage == 1 else shard,
        optimizer=2 * shard + FP32 * len(vectors),
    )
    sent = zero_bytes(num_ranks, shard * num_ranks, stage)
    if stage == 3:
        sent -= ring_all_gather_bytes(num_ranks, FP32 * shards[-1] * num_ranks)
    return Predicted(held, sent)


def vector_sizes(model: GPT, stage: int) -> list[int]:
    """The number of parameters in each vector: per message, per bucket, or per block followed by the rest."""
    parameters = list(model.parameters())
    if stage < 3:
        vectors = in_messages(parameters) if stage == 1 else assign_buckets(parameters)
        return [sum(parameter.numel() for parameter in vector) for vector in vectors]
    blocks = [sum(parameter.numel() for parameter in block.parameters()) for block in model.blocks]
    return [*blocks, sum(parameter.numel() for parameter in parameters) - sum(blocks)]
