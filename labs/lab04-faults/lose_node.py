"""Two machines train together until one is lost, by power failure or a pulled cable. The other continues alone.

Run `python labs/lab04-faults/lose_node.py power`, or cable. Each machine is a network namespace running plain torchrun,
so this needs Linux, root and iproute2. It does not touch the host's network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from watched import EVERY, Watched, python, write_recipe

PATIENCE = 8.0  # seconds that a rank waits for a message, also from an unreachable machine
LONG = 240.0
ADDRESSES = ("10.214.7.1", "10.214.7.2")


class How(StrEnum):
    """How a machine is lost: all its processes die at once, or its link goes down while they live."""

    POWER, CABLE = "power", "cable"


def ip(*words: str) -> None:
    """Run one iproute2 command."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def two_machines() -> Iterator[list[str]]:
    """The names of two network namespaces with a link between them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        typer.echo("two network namespaces need root and iproute2: use sudo or a container", err=True)
        raise typer.Exit(2)
    names = [f"shardlab{os.getpid()}{letter}" for letter in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", names[0], "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "wire")
            ip("-n", name, "link", "set", "wire", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def torchrun(machine: str, address: str, recipe: Path) -> Watched:
    """Run plain torchrun on one machine with two ranks, for one or two machines."""
    options = [
        *("--nnodes=1:2", "--nproc-per-node=2", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=lab04"),
        *(f"--rdzv-endpoint={ADDRESSES[0]}:29417", f"--local-addr={address}"),
        f"--rdzv-conf=is_host={int(address == ADDRESSES[0])},last_call_timeout=10",
    ]
    enter = ["ip", "netns", "exec", machine]
    return Watched([*enter, *python("-m", "torch.distributed.run", *options, "-m", "shardlab.train", str(recipe))])


def main(
    how: Annotated[How, typer.Argument(help="All processes of a machine die, or its link goes down.")],
    steps: Annotated[int, typer.Option(min=12, help="Training steps; there is a checkpoint every 4.")] = 24,
) -> None:
    """Train on two machines of two ranks each, lose the second after step 4, and watch the first continue."""
    with tempfile.TemporaryDirectory(prefix="shardlab-faults-") as name, two_machines() as machines:
        recipe = write_recipe(Path(name), dp=None, steps=steps, survival={"patience": PATIENCE})
        with ExitStack() as both:
            first, second = (
                both.enter_context(torchrun(machine, address, recipe))
                for machine, address in zip(machines, ADDRESSES, strict=True)
            )
            first.wait_for(rf"checkpoint step-{EVERY:08}", limit=LONG)
            began = time.monotonic()
            if how == How.POWER:
                second.kill()
            else:
                ip("-n", machines[1], "link", "set", "wire", "down")
            # the first rank to time out closes its connections, and a neighbor may report that before it has reported
            # why
            said = "another rank was lost" + (".*Timed out" if how == How.CABLE else "")
            seen, sentence = first.wait_for(said, limit=LONG)
            resumed, line = first.wait_for("resumed after step", limit=LONG)
            code = first.end(limit=LONG)
        report(first, how, sentence, line, seen - began, resumed - began)
        raise typer.Exit(code)


def report(first: Watched, how: How, sentence: str, line: str, took: float, resumed: float) -> None:
    """Print the outcome in a few lines."""
    before, after = [text for _, text in first.lines if re.match(r"dp \d", text)][:2]
    last = [text for _, text in first.lines if re.match(r"step ", text)][-1]
    limit = "immediate" if how == How.POWER else f"patience is {PATIENCE:.0f} s"
    typer.echo(f"before       {before}")
    typer.echo(f"detected in  {took:.1f} s ({limit}): {sentence}")
    typer.echo(f"continued    after {resumed:.1f} s: {line}")
    typer.echo(f"now          {after}")
    typer.echo(f"at the end   {last}")


if __name__ == "__main__":
    typer.run(main)
