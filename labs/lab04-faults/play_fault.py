"""Inject a fault into a training run and report when it was detected, what it cost and how training continued.

Run `python labs/lab04-faults/play_fault.py kill`, or stop, slow, nan, full-disk or all. The ranks are real processes.
"""

from __future__ import annotations

import re
import tempfile
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from faults import FAULTS, SILENCE, Fault, nothing, on_a_small_disk
from watched import EVERY, Watched, python, write_recipe

HERE = Path(__file__).parent
LONG = 240.0  # seconds allowed for a small training run on a busy machine


class Name(StrEnum):
    """The faults, or all of them in turn."""

    KILL, STOP, SLOW, NAN, FULL_DISK, ALL = *FAULTS, "all"


class Then(StrEnum):
    """The recipe's reaction to a lost rank."""

    RESTART, SHRINK = "restart", "shrink"


def main(
    fault: Annotated[Name, typer.Argument(help="The fault to inject.")],
    ranks: Annotated[int, typer.Option(min=2, max=8, help="Replicas, one rank each; they share a batch of 16.")] = 2,
    rank: Annotated[int, typer.Option(min=0, help="The rank to inject it into.")] = 1,
    then: Annotated[Then, typer.Option(help="Restart all ranks from the last checkpoint, or fewer.")] = Then.RESTART,
    steps: Annotated[int, typer.Option(min=12, help="Training steps; there is a checkpoint every 4.")] = 16,
) -> None:
    """Train twice, once undisturbed and once with the fault after step 4, and compare."""
    if rank >= ranks:
        typer.echo(f"there is no rank {rank} of {ranks}: use 0 to {ranks - 1}", err=True)
        raise typer.Exit(2)
    if 16 % (2 * ranks):
        typer.echo(f"{ranks} ranks cannot share 16 sequences in 2 microbatches: use 2, 4 or 8", err=True)
        raise typer.Exit(2)
    chosen = list(FAULTS) if fault == Name.ALL else [str(fault)]
    with tempfile.TemporaryDirectory(prefix="shardlab-faults-") as name:
        whole = unbroken(Path(name, "whole"), ranks, steps)
        step = sorted(row["seconds"] for row in whole.values())[len(whole) // 2]
        typer.echo(
            f"undisturbed: {steps} steps on {ranks} ranks, {step:.2f} s each, last loss {whole[steps]['loss']:.4f}"
        )
        wrong = [
            one for one in chosen if not play(one, Path(name, one), whole, step, ranks=ranks, rank=rank, then=then)
        ]
    if wrong:
        typer.echo(f"unexpected result: {', '.join(wrong)}", err=True)
        raise typer.Exit(1)


def unbroken(folder: Path, ranks: int, steps: int) -> dict[int, dict[str, Any]]:
    """The log rows of an undisturbed training run, by step."""
    recipe = write_recipe(folder, dp=ranks, steps=steps, survival={})
    with Watched(python("-m", "shardlab.train", str(recipe))) as run:
        run.wait_for(f"checkpoint step-{steps:08}", limit=LONG)
        run.end(limit=60)
    return rows(folder)


def play(
    name: str, folder: Path, whole: dict[int, dict[str, Any]], step: float, *, ranks: int, rank: int, then: Then
) -> bool:
    """Run one fault and report it in five lines; returns whether it was detected in time with the expected losses."""
    fault, steps = FAULTS[name], max(whole)
    survival = {"silence": SILENCE, "on_lost_rank": str(then)} | fault.survival
    recipe = write_recipe(folder, dp=ranks, steps=steps, survival=survival)
    with Watched(command_of(name, folder, recipe, rank)) as run:
        run.wait_for(rf"checkpoint step-{EVERY:08}", limit=LONG)
        with fault.does(run, rank, folder):
            began = time.monotonic()
            if fault.does is nothing:  # it starts on its own at the end of step 4
                began, _ = run.wait_for(rf"step +{EVERY}/", limit=LONG)
            seen, sentence = run.wait_for(fault.seen.format(rank=rank), limit=LONG)
        code = run.end(limit=LONG)
        said = [line for when, line in run.lines if when > seen]
    took, limit = seen - began, fault.limit(step)
    typer.echo(f"\n{name}: {fault.happens.format(rank=rank)}, after step {EVERY}")
    typer.echo(f"  detected in  {took:.1f} s; the limit is {limit:.1f} s")
    typer.echo(f"  reported as  {sentence}")
    going_on = "continuing with|resumed after step" if fault.is_lost else "checkpoint step-"
    went_on = next((line for line in said if re.search(going_on, line)), None)
    typer.echo(f"  continued    {went_on or 'not at all'}")
    is_right = took <= limit and code == 0 and went_on is not None and curve(fault, rows(folder), whole, then)
    goodput = next((line for line in said if line.startswith("goodput")), "")
    if goodput:
        typer.echo(f"  {goodput.replace('goodput', 'goodput     ', 1)}")
    return is_right


def command_of(name: str, folder: Path, recipe: Path, rank: int) -> list[str]:
    """The command that starts training for a fault."""
    if name == "nan":
        return python(str(HERE / "poisoned_rank.py"), str(recipe), str(rank), str(EVERY + 1))
    plain = python("-m", "shardlab.train", str(recipe))
    return on_a_small_disk(folder, plain) if name == "full-disk" else plain


def curve(fault: Fault, broken: dict[int, dict[str, Any]], whole: dict[int, dict[str, Any]], then: Then) -> bool:
    """Compare the losses and print the result."""
    if not fault.equal:
        missing = sorted(whole.keys() - broken.keys())
        ends = [f"{one[max(whole)]['loss']:.4f}" for one in (broken, whole)]
        typer.echo(f"  losses       without step {missing}; the last is {ends[0]}, undisturbed {ends[1]}")
        return missing == [EVERY + 1] and all(broken[one]["loss"] == whole[one]["loss"] for one in range(1, EVERY + 1))
    off = max(abs(broken[one]["loss"] - whole[one]["loss"]) if one in broken else 9.0 for one in whole)
    typer.echo(
        f"  losses       {len(broken)} of {len(whole)} steps; largest difference from the undisturbed run: {off:.1e}"
    )
    return off <= (1e-4 if fault.is_lost and then == Then.SHRINK else 0.0)


def rows(folder: Path) -> dict[int, dict[str, Any]]:
    """The log's row for each step; if a step was run twice, the last one."""
    from shardlab.train import read_log

    return {row["step"]: row for row in read_log(folder / "run")}


if __name__ == "__main__":
    typer.run(main)
