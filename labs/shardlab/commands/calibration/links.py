"""Links between ranks in the alpha-beta model, the slowdown on shared cores, and how much communication is hidden."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

import torch
import torch.distributed as dist

from shardlab.commands.calibration.compute import training_pass
from shardlab.costs.clock.calibration import COLLECTIVES
from shardlab.costs.traffic import Link, fit_alpha_beta, ring_all_gather_bytes, ring_all_reduce_bytes
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss

SIZES = (2**12, 2**16, 2**19, 2**21, 2**23)  # bytes of the whole tensor
ROUNDS, WARM_UP = 15, 3
TOGETHER = GPTConfig(layers=2, hidden=192)  # computed by all ranks at once to measure the slowdown
BATCH = 4
MESSAGE_BYTES = 2**22  # of the all-reduce that overlaps it
PIECES, PRODUCTS, SIDE = 8, 8, 256  # pieces of work between messages, each about 5 ms on a core
SMALL_BYTES = 2**16  # of each of those messages
Name = TypeVar("Name")


def rounds_of(
    calls: Mapping[Name, Callable[[], object]], device: torch.device, rounds: int = ROUNDS
) -> dict[Name, list[float]]:
    """Seconds of each round of each call on this rank. Calls take turns, and all ranks start each call together.

    This way any other load on the machine disturbs all calls equally.
    """
    seconds: dict[Name, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + WARM_UP):
        for name, call in calls.items():
            _wait_for(device)
            dist.barrier()
            began = time.perf_counter()
            call()
            _wait_for(device)
            seconds[name].append(time.perf_counter() - began)
    return {name: all_rounds[WARM_UP:] for name, all_rounds in seconds.items()}


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_links(device_type: str) -> dict[tuple[str, int], list[float]]:
    """On each rank: seconds of each round of each collective, and of `send`, by bytes of the whole tensor."""
    torch.set_num_threads(1)
    device, size = torch.device(device_type), dist.get_world_size()
    calls: dict[tuple[str, int], Callable[[], object]] = {}
    for num_bytes in SIZES:
        elements = num_bytes // 4 // size
        part, whole = torch.ones(elements, device=device), torch.ones(elements * size, device=device)
        calls |= {
            ("all_reduce", num_bytes): lambda whole=whole: dist.all_reduce(whole),
            ("reduce_scatter", num_bytes): lambda part=part, whole=whole: dist.reduce_scatter_single(part, whole),
            ("all_gather", num_bytes): lambda part=part, whole=whole: dist.all_gather_single(whole, part),
            ("send", num_bytes): lambda part=part: _there_and_back(part),
        }
    return rounds_of(calls, device)


def _there_and_back(part: torch.Tensor) -> None:
    """Send a message from rank 0 to the last rank and back."""
    last = dist.get_world_size() - 1
    if dist.get_rank() == 0:
        dist.send(part, last)
        dist.recv(part, last)
    elif dist.get_rank() == last:
        dist.recv(part, 0)
        dist.send(part, 0)


def links_of(by_rank: Sequence[dict[tuple[str, int], list[float]]]) -> dict[str, Link]:
    """Alpha and beta of each kind, fitted to the median round. A round lasts as long as on its slowest rank."""
    num_ranks = len(by_rank)
    samples: dict[str, list[tuple[float, float, float]]] = {}
    for kind, num_bytes in by_rank[0]:
        rounds = [max(ranks) for ranks in zip(*(rank[kind, num_bytes] for rank in by_rank), strict=True)]
        whole = num_bytes // 4 // num_ranks * num_ranks * 4
        messages, sent = {
            "all_reduce": (2 * (num_ranks - 1), ring_all_reduce_bytes(num_ranks, whole)),
            "send": (2, 2 * whole / num_ranks),
        }.get(kind, (num_ranks - 1, ring_all_gather_bytes(num_ranks, whole)))
        samples.setdefault(kind, []).append((messages, sent, median(rounds)))
    assert set(samples) == {*COLLECTIVES, "send"}
    return {kind: fit_alpha_beta(rows) for kind, rows in samples.items()}


def measure_sharing(device_type: str) -> dict[str, list[float]]:
    """On each rank: rounds of an all-reduce, of compute then all-reduce, and of compute overlapped with an all-reduce.

    In a round of `alone` one rank computes, taking turns, while the others wait.
    """
    torch.set_num_threads(1)
    device, rank, size = torch.device(device_type), dist.get_rank(), dist.get_world_size()
    model = GPT(TOGETHER).to(device)
    tokens = torch.randint(TOGETHER.vocabulary, (BATCH, TOGETHER.sequence), device=device)
    compute = training_pass(model, lambda: next_token_loss(model(tokens), tokens))
    message, turns = torch.ones(MESSAGE_BYTES // 4, device=device), itertools.count()

    def alone() -> None:
        if next(turns) % size == rank:
            compute()

    def after() -> None:
        compute()
        dist.all_reduce(message)

    def beside() -> None:
        work = dist.all_reduce(message, async_op=True)
        compute()
        if work is not None:
            work.wait()

    calls = {"alone": alone, "message": lambda: dist.all_reduce(message), "after": after, "beside": beside}
    return rounds_of(calls, device, 2 * ROUNDS)


def measure_turns(device_type: str) -> dict[str, list[float]]:
    """On each rank: rounds of short pieces of work with a message after each, and with all messages at the end.

    Tensor-parallel layers communicate like the former. Ranks do not finish a piece at the same time, especially on
    shared cores, and a message waits for the last one.
    """
    torch.set_num_threads(1)
    device = torch.device(device_type)
    square, message = torch.randn(SIDE, SIDE, device=device), torch.ones(SMALL_BYTES // 4, device=device)

    def work() -> None:
        for _ in range(PRODUCTS):
            torch.mm(square, square)

    def in_turns() -> None:
        for _ in range(PIECES):
            work()
            dist.all_reduce(message)

    def apart() -> None:
        for _ in range(PIECES):
            work()
        for _ in range(PIECES):
            dist.all_reduce(message)

    return rounds_of({"in_turns": in_turns, "apart": apart}, device)


def waits_of(by_rank: Sequence[dict[str, list[float]]]) -> float:
    """Extra seconds that a message between short pieces of work waits."""
    return max(0.0, slowest(by_rank, "in_turns") - slowest(by_rank, "apart")) / PIECES


def slowest(by_rank: Sequence[dict[str, list[float]]], name: str) -> float:
    """The median round, where a round lasts as long as on its slowest rank."""
    return median(max(ranks) for ranks in zip(*(rank[name] for rank in by_rank), strict=True))


def sharing_of(by_rank: Sequence[dict[str, list[float]]]) -> tuple[float, float]:
    """The slowdown and the hidden share, from the results of `measure_sharing`.

    Ranks finish computing at different moments, and the message after that waits for the last one: this waiting counts
    as slowdown. hidden: the share of the shorter of the two that overlaps when both run together; 0 if they run one
    after the other, 1 if they overlap fully.
    """
    alone, message, after, beside = (slowest(by_rank, name) for name in ("alone", "message", "after", "beside"))
    compute = max(after - message, alone / len(by_rank))
    return compute / alone, min(1.0, max(0.0, (after - beside) / min(compute, message)))
