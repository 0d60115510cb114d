"""A fault happens to a training, and the whole story is told: when it was seen, what it cost, how it went on.

`python labs/lab04-faults/play_fault.py kill`, or stop, slow, nan, full-disk, or all. Two ranks are real processes.
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
LONG = 240.0  # seconds that a small training may take on a busy machine


class Name(StrEnum):
    """The faults, and all of them one after the other."""

    KILL, STOP, SLOW, NAN, FULL_DISK, ALL = *FAULTS, "all"


class Then(StrEnum):
    """What the recipe says about a lost rank."""

    RESTART, SHRINK = "restart", "shrink"


def main(
    fault: Annotated[Name, typer.Argument(help="What happens.")],
    ranks: Annotated[int, typer.Option(min=2, max=8, help="Replicas, one rank each; they share a batch of 16.")] = 2,
    rank: Annotated[int, typer.Option(min=0, help="To which rank it happens.")] = 1,
    then: Annotated[Then, typer.Option(help="With all ranks from the last checkpoint, or with fewer.")] = Then.RESTART,
    steps: Annotated[int, typer.Option(min=12, help="Steps of the training; a checkpoint every 4.")] = 16,
) -> None:
    """Train twice, once unbroken and once with the fault behind step 4, and compare."""
    if rank >= ranks:
        typer.echo(f"there is no rank {rank} among {ranks}: use 0 to {ranks - 1}", err=True)
        raise typer.Exit(2)
    if 16 % (2 * ranks):
        typer.echo(f"{ranks} ranks cannot share 16 sequences in 2 microbatches: use 2, 4 or 8", err=True)
        raise typer.Exit(2)
    chosen = list(FAULTS) if fault == Name.ALL else [str(fault)]
    with tempfile.TemporaryDirectory(prefix="shardlab-faults-") as name:
        whole = unbroken(Path(name, "whole"), ranks, steps)
        step = sorted(row["seconds"] for row in whole.values())[len(whole) // 2]
        typer.echo(f"unbroken: {steps} steps on {ranks} ranks, {step:.2f} s each, last loss {whole[steps]['loss']:.4f}")
        wrong = [
            one for one in chosen if not play(one, Path(name, one), whole, step, ranks=ranks, rank=rank, then=then)
        ]
    if wrong:
        typer.echo(f"not as it should be: {', '.join(wrong)}", err=True)
        raise typer.Exit(1)


def unbroken(folder: Path, ranks: int, steps: int) -> dict[int, dict[str, Any]]:
    """The rows of a training to which nothing happens, by step."""
    recipe = write_recipe(folder, dp=ranks, steps=steps, survival={})
    with Watched(python("-m", "shardlab.train", str(recipe))) as run:
        run.wait_for(f"checkpoint step-{steps:08}", limit=LONG)
        run.end(limit=60)
    return rows(folder)


def play(
    name: str, folder: Path, whole: dict[int, dict[str, Any]], step: float, *, ranks: int, rank: int, then: Then
) -> bool:
    """One fault, told in five lines; whether it was seen in time and the curve is as it should be."""
    fault, steps = FAULTS[name], max(whole)
    survival = {"silence": SILENCE, "on_lost_rank": str(then)} | fault.survival
    recipe = write_recipe(folder, dp=ranks, steps=steps, survival=survival)
    with Watched(command_of(name, folder, recipe, rank)) as run:
        run.wait_for(rf"checkpoint step-{EVERY:08}", limit=LONG)
        with fault.does(run, rank, folder):
            began = time.monotonic()
            if fault.does is nothing:  # it begins by itself, when step 4 has ended
                began, _ = run.wait_for(rf"step +{EVERY}/", limit=LONG)
            seen, sentence = run.wait_for(fault.seen.format(rank=rank), limit=LONG)
        code = run.end(limit=LONG)
        said = [line for when, line in run.lines if when > seen]
    took, limit = seen - began, fault.limit(step)
    typer.echo(f"\n{name}: {fault.happens.format(rank=rank)}, behind step {EVERY}")
    typer.echo(f"  seen after   {took:.1f} s, and {limit:.1f} s were allowed")
    typer.echo(f"  named        {sentence}")
    going_on = "continuing with|resumed after step" if fault.is_lost else "checkpoint step-"
    went_on = next((line for line in said if re.search(going_on, line)), None)
    typer.echo(f"  went on      {went_on or 'not at all'}")
    is_right = took <= limit and code == 0 and went_on is not None and curve(fault, rows(folder), whole, then)
    goodput = next((line for line in said if line.startswith("goodput")), "")
    if goodput:
        typer.echo(f"  {goodput.replace('goodput', 'goodput     ', 1)}")
    return is_right


def command_of(name: str, folder: Path, recipe: Path, rank: int) -> list[str]:
    """How the training is started for a fault."""
    if name == "nan":
        return python(str(HERE / "poisoned_rank.py"), str(recipe), str(rank), str(EVERY + 1))
    plain = python("-m", "shardlab.train", str(recipe))
    return on_a_small_disk(folder, plain) if name == "full-disk" else plain


def curve(fault: Fault, broken: dict[int, dict[str, Any]], whole: dict[int, dict[str, Any]], then: Then) -> bool:
    """Compare the losses, and say so."""
    if not fault.equal:
        missing = sorted(whole.keys() - broken.keys())
        ends = [f"{one[max(whole)]['loss']:.4f}" for one in (broken, whole)]
        typer.echo(f"  losses       without step {missing}; the last {ends[0]}, unbroken {ends[1]}")
        return missing == [EVERY + 1] and all(broken[one]["loss"] == whole[one]["loss"] for one in range(1, EVERY + 1))
    off = max(abs(broken[one]["loss"] - whole[one]["loss"]) if one in broken else 9.0 for one in whole)
    typer.echo(
        f"  losses       {len(broken)} of {len(whole)} steps; largest difference to the unbroken run's: {off:.1e}"
    )
    return off <= (1e-4 if fault.is_lost and then == Then.SHRINK else 0.0)


def rows(folder: Path) -> dict[int, dict[str, Any]]:
    """What a training's log says of each step; where a step was done twice, of the last time."""
    from shardlab.train import read_log

    return {row["step"]: row for row in read_log(folder / "run")}


if __name__ == "__main__":
    typer.run(main)
