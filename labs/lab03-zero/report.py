"""Code shared by this lab's programs: run one stage on ranks and print predictions and measurements."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # --help should not wait for torch
    from shardlab.data_parallel.experiment import Measured
    from shardlab.model.gpt import GPTConfig

COURSE = Path(__file__).parents[2]


Ranks = Annotated[int, typer.Option(min=1, max=16, help="Ranks to start; torchrun's number takes precedence.")]
Layers = Annotated[int, typer.Option(min=1, help="Transformer blocks.")]
Hidden = Annotated[int, typer.Option(min=1, help="Hidden size.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps to measure, after two warm-up steps.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Sequences per rank and step.")]


class Device(StrEnum):
    """Device of the model: gloo between CPUs, NCCL between GPUs."""

    CPU, CUDA = "cpu", "cuda"


On = Annotated[
    Device, typer.Option("--device", help="cuda: one GPU per rank, or all ranks on one GPU if NCCL allows it.")
]


def program(stage: int) -> Callable[..., None]:
    """The command line program for one stage."""

    def main(
        ranks: Ranks = 2,
        layers: Layers = 4,
        hidden: Hidden = 128,
        steps: Steps = 10,
        batch: BatchSize = 4,
        device: On = Device.CPU,
    ) -> None:
        report(stage, ranks=ranks, config=sizes(layers, hidden), steps=steps, batch=batch, device=device)

    main.__doc__ = (
        f"Train a small GPT on the course's text with ZeRO stage {stage}; print predicted and measured bytes."
    )
    return main


def measure(stage: int, config: GPTConfig, steps: int, batch: int, device: str) -> Measured:
    """On each rank: train the small GPT on the course's own text."""
    from shardlab.data_parallel.experiment import build, train
    from shardlab.model.text import read_text

    return train(
        build(stage, config, None, device=device), config, read_text(COURSE / "docs"), steps=steps, batch=batch
    )


def report(stage: int, *, ranks: int, config: GPTConfig, steps: int, batch: int, device: str) -> None:
    """Train, then print a table that shows whether the bytes agree."""
    from shardlab.data_parallel.experiment import predicted
    from shardlab.data_parallel.peak import predicted_peak
    from shardlab.ranks.run import on_ranks

    on_gpu = device == Device.CUDA
    by_rank = on_ranks(measure, stage, config, steps, batch, str(device), ranks=ranks, timeout=300, gpus=on_gpu)
    if by_rank is None:
        return
    one, due = by_rank[0], predicted(config, stage, len(by_rank))
    rows = [
        ("weights, bytes", due.held.parameters, one.held.parameters),
        ("gradients, bytes", due.held.gradients, one.held.gradients),
        ("optimizer state, bytes", due.held.optimizer, one.held.optimizer_state),
        ("all states, bytes", due.held.total, one.held.total),
        ("sent per step, bytes", due.sent_bytes, one.sent_bytes),
    ]
    typer.echo(f"{'one rank of ' + str(len(by_rank)):26}{'predicted':>16}{'measured':>16}")
    for label, formula, measured in rows:
        typer.echo(f"{label:26}{formula:16,.0f}{measured:16,.0f}{'' if formula == measured else '   differs'}")
    if stage == 3:
        peak = predicted_peak(config, len(by_rank), batch=batch)
        typer.echo(f"{'peak, bytes':26}{peak:16,.0f}{one.peak_bytes:16,.0f}   {one.peak_bytes / peak - 1:+.1%}")
        typer.echo(f"{'largest unit, bytes':26}{'':16}{one.largest_unit:16,.0f}")
    else:
        typer.echo(f"{'peak, bytes':26}{'':16}{one.peak_bytes:16,.0f}")
    slowest = max(by_rank, key=lambda rank: rank.seconds)
    typer.echo(f"{'seconds per step':26}{'':16}{slowest.seconds:16.3f}")
    if not on_gpu:  # waiting on a GPU is invisible to Python
        typer.echo(f"{'of this, waiting':26}{'':16}{slowest.exposed:16.3f}")
    typer.echo(f"{'calls per step':26}{'':16}{one.num_calls:16}")
    typer.echo(f"loss of rank 0: {one.losses[0]:.3f} at the first step, {one.losses[-1]:.3f} at the last")


def sizes(layers: int, hidden: int) -> GPTConfig:
    """A model with four heads, or the largest smaller number that divides the hidden size."""
    from shardlab.model.gpt import GPTConfig

    heads = next(heads for heads in (4, 3, 2, 1) if hidden % heads == 0)
    return GPTConfig(layers=layers, hidden=hidden, heads=heads)
