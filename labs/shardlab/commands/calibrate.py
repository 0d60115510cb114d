"""The command `shardlab calibrate`: measure this machine once so that predictions can be made for it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shardlab.costs.clock.calibration import Calibration


def calibrate(
    out: Annotated[
        Path | None, typer.Option("--out", help="JSON file to write [default: the file that `--gpu here` reads].")
    ] = None,
    ranks: Annotated[
        str, typer.Option("--ranks", help="Rank counts to measure, separated by commas; 1: skip.")
    ] = "2,4",
    device: Annotated[str, typer.Option("--device", help="cpu or cuda [default: the ranks' device here].")] = "",
) -> None:
    """Measure this machine in a minute or two: matmuls, memory, layers, links between ranks and shared cores.

    Close other programs first. `shardlab plan --gpu here` and the programs of lab 1 read the file that this writes.
    """
    from shardlab.commands.calibration.measure import calibrate as measure
    from shardlab.costs.clock.calibration import default_file, write_calibration

    path = out or default_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=path.parent).close()  # fail now, not after a minute of measuring
        found = measure(_counts(ranks), device=device, say=lambda text: typer.echo(f"measuring {text}", err=True))
        write_calibration(found, path)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}", param_hint="--out") from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--ranks, --device") from None
    show(found)
    typer.echo(f"wrote {path}")


def show(found: Calibration) -> None:
    """Print a summary of the calibration: rates at the largest size and one line for each number of ranks."""
    typer.echo(f"{found.machine}, {found.cores} cores, {found.measured}")
    for dtype, rates in found.matmul.items():
        best = max(rates, key=rates.__getitem__)
        small = min(rates)
        typer.echo(
            f"{dtype:9} matmul: {rates[best] / 1e9:8.1f} GFLOP/s at side {best}, {rates[small] / 1e9:.1f} at {small}"
        )
    small, large = min(found.memory), max(found.memory)
    typer.echo(
        f"memory: {found.memory[small] / 1e9:.1f} GB/s at {small // 1024} KiB, {found.memory[large] / 1e9:.1f} GB/s at "
        f"{large // 2**20} MiB; smallest operation {found.operation * 1e6:.1f} us"
    )
    typer.echo(f"a layer, not counting its matmuls: {found.pass_seconds[1] * 1e3:.2f} ms")
    for number, one in found.ranks.items():
        alpha, beta = one.links["all_reduce"]
        typer.echo(
            f"{number} ranks: each computes {one.slowdown:.2f} times as long and hides {one.hidden:.0%} of messages; "
            f"all-reduce alpha {alpha * 1e6:.0f} us, {1e-9 / beta if beta else 0:.2f} GB/s"
        )


def _counts(text: str) -> list[int]:
    """Parse comma-separated rank counts and drop 1. Raises ValueError for anything else."""
    try:
        counts = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise ValueError(f"{text!r} is not a list of rank counts: use a list such as 2,4") from None
    if counts[0] < 1 or counts[-1] > 64:
        raise ValueError(f"{text} ranks: use numbers from 1 to 64")
    return [count for count in counts if count > 1]
