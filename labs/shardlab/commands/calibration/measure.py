"""The whole calibration: one rank alone, then each number of ranks together, with what DDP and the ZeRO stages add.

They cost more than layers, Adam and messages: per-tensor hooks, buckets and shards.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from statistics import median

import psutil
import torch

from shardlab import meter
from shardlab.commands.calibration.compute import measure_alone, training_pass
from shardlab.commands.calibration.links import (
    links_of,
    measure_links,
    measure_sharing,
    measure_turns,
    rounds_of,
    sharing_of,
    waits_of,
)
from shardlab.costs.clock.calibration import Calibration, Together
from shardlab.data_parallel.experiment import build
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss
from shardlab.ranks.run import run
from shardlab.ranks.transports import GLOO, choose_transport

# a model with almost nothing to compute, and one whose weights take a while to copy: the overhead of each
SIZES = (GPTConfig(layers=3, hidden=32), GPTConfig(layers=3, hidden=160))
HOST = torch.device("cpu")


def measure_bookkeeping() -> list[list[float]]:
    """On one rank, for each stage: seconds per step of each of SIZES, minus its passes and AdamW."""
    torch.set_num_threads(1)
    return [[_beside_passes(stage, config) for config in SIZES] for stage in range(4)]


def bookkeeping_of(measured: list[list[float]]) -> tuple[tuple[float, float], ...]:
    """Seconds per tensor and per parameter, by stage; never negative."""
    counts = [[parameter.numel() for parameter in GPT(config).parameters()] for config in SIZES]
    small, large = map(sum, counts)
    found = []
    for of_small, of_large in measured:
        parameter = max(0.0, of_large - of_small) / (large - small)
        found.append((max(0.0, of_small - parameter * small) / len(counts[0]), parameter))
    return tuple(found)


def _beside_passes(stage: int, config: GPTConfig) -> float:
    engine, plain = build(stage, config, None), GPT(config)
    tokens = torch.randint(config.vocabulary, (1, config.sequence))

    def step() -> None:
        with meter.record():
            next_token_loss(engine.model(tokens), tokens).backward()
            engine.held()
            engine.optimizer.step()
        engine.optimizer.zero_grad()

    vectors = [torch.nn.Parameter(one.detach().clone()) for one in _updated(engine, plain)]
    for vector in vectors:
        vector.grad = torch.zeros_like(vector)
    adam = torch.optim.AdamW(vectors)
    passes = training_pass(plain, lambda: next_token_loss(plain(tokens), tokens))
    calls = {"step": step, "passes": passes, "adam": adam.step}
    seconds = {name: median(one) for name, one in rounds_of(calls, HOST).items()}
    return seconds["step"] - seconds["passes"] - seconds["adam"]


def _updated(engine, plain: GPT) -> list[torch.Tensor]:
    """The tensors that a rank's optimizer updates: all weights with DDP, this rank's shards with ZeRO."""
    vectors = getattr(engine.optimizer, "vectors", None)
    return list(plain.parameters()) if vectors is None else [vector.master for vector in vectors]


SECONDS = 240  # time limit of each measurement


def calibrate(
    rank_counts: Sequence[int] = (2, 4), *, device: str = "", say: Callable[[str], None] = lambda _: None
) -> Calibration:
    """Measure this machine; calls `say` before each measurement.

    device: `cuda` or `cpu` [default: as ranks on this machine]. Raises ValueError for fewer than 2 ranks, or for
    a GPU if there is none.
    """
    if min(rank_counts, default=2) < 2:
        raise ValueError(f"{min(rank_counts)} ranks have no links to measure: use 2 or more")
    transport = transport_for(device, max(rank_counts, default=1))
    device = device or ("cpu" if transport == GLOO else "cuda")

    def on(ranks: int, function: Callable[..., object]) -> list:
        return run(function, device, ranks=ranks, timeout=SECONDS, transport=GLOO if device == "cpu" else None)

    say("one rank alone: matmuls, memory, layers, Adam")
    alone = on(1, measure_alone)[0]
    together = {}
    for ranks in rank_counts:
        say(f"{ranks} ranks: collectives, compute on shared cores, overlap")
        links = links_of(on(ranks, measure_links))
        slowdown, hidden = sharing_of(on(ranks, measure_sharing))
        waits = waits_of(on(ranks, measure_turns))
        together[ranks] = Together(slowdown=slowdown, hidden=hidden, links=links, waits=waits)
    return Calibration(
        machine=description(device),
        bookkeeping=bookkeeping_of(run(measure_bookkeeping, ranks=1, timeout=SECONDS, transport=GLOO)[0]),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        device=device,
        transport=transport,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=device_memory(device),
        ranks=together,
        **alone._asdict(),
    )


def transport_for(device: str, ranks: int) -> str:
    """How the ranks will communicate. Raises ValueError for an unknown device or one that this machine lacks."""
    chosen = choose_transport(ranks)
    if device not in ("", "cpu", "cuda"):
        raise ValueError(f"there is no device {device!r}: use cpu or cuda")
    if device == "cuda" and chosen == GLOO:
        raise ValueError(f"{ranks} ranks cannot use a GPU on this machine: use cpu")
    return GLOO if device == "cpu" else chosen


def description(device: str) -> str:
    """A description of the machine: processor or GPU, system and torch."""
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else _processor()
    return f"{name}; {platform.system()} {platform.machine()}; torch {torch.__version__}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def device_memory(device: str) -> int:
    """Memory of the GPU, or of the machine, in bytes."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_properties(0).total_memory
    return psutil.virtual_memory().total
