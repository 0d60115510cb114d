"""Cost of DDP and the ZeRO stages other than layers, Adam and messages: per-tensor hooks, buckets and shards."""

from __future__ import annotations

from statistics import median

import torch

from shardlab import meter
from shardlab.commands.calibration.clock import training_pass
from shardlab.commands.calibration.links import rounds_of
from shardlab.data_parallel.experiment import build
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss

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
