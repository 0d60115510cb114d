"""What DDP and the stages of ZeRO cost beside layers, Adam and messages: hooks, buckets and slices of each tensor."""

from __future__ import annotations

from statistics import median

import torch

from shardlab import meter
from shardlab.calibrate.clock import training_pass
from shardlab.calibrate.links import rounds_of
from shardlab.data_parallel.experiment import build
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss

TINY = GPTConfig(layers=3, hidden=32)  # almost nothing to compute: what is left is bookkeeping
HOST = torch.device("cpu")


def measure_bookkeeping() -> list[list[float]]:
    """On one rank, for each stage: seconds of a step without its passes, and of a plain AdamW of as many tensors."""
    torch.set_num_threads(1)
    return [_beside_passes(stage) for stage in range(4)]


def bookkeeping_of(measured: list[list[float]]) -> tuple[float, ...]:
    """Seconds a tensor, by stage, without Adam's."""
    tensors = len(list(GPT(TINY).parameters()))
    return tuple(max(0.0, step - adam) / tensors for step, adam in measured)


def _beside_passes(stage: int) -> list[float]:
    engine, plain = build(stage, TINY, None), GPT(TINY)
    tokens = torch.randint(TINY.vocabulary, (1, TINY.sequence))

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
    return [seconds["step"] - seconds["passes"], seconds["adam"]]


def _updated(engine, plain: GPT) -> list[torch.Tensor]:
    """What a rank's optimizer steps over: all weights with DDP, this rank's slices with ZeRO."""
    units = getattr(engine.optimizer, "units", None)
    return list(plain.parameters()) if units is None else [unit.master for unit in units]
