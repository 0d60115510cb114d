"""Train a recipe: `python -m shardlab.train three-axes --set run.steps=20`, or the same under torchrun."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from shardlab.terminal import fit_output
from shardlab.train.recipe import read


def main(
    recipe: Annotated[str, typer.Argument(help="A .toml file, or one-rank, three-axes, five-axes, experts.")],
    ranks: Annotated[
        int | None, typer.Option("--ranks", min=1, max=64, help="Ranks to start; by default as many as the mesh needs.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, such as mesh.tp=2; can be repeated.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors; still write files.")] = False,
) -> None:
    """Train a recipe on ranks of this machine. Under torchrun, this process is one of its ranks."""
    try:
        wanted = read(recipe, change or [])
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    from shardlab.train import program

    if "RANK" in os.environ:
        code = program.be_a_rank(wanted, quiet=quiet)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(
            code
        )  # skip destructors: they would wait for peers, and one in a gloo thread has crashed a finished rank
    arguments = [recipe, *(part for one in change or [] for part in ("--set", one)), *(["--quiet"] if quiet else [])]
    raise typer.Exit(program.start(wanted, arguments, ranks))


if __name__ == "__main__":
    fit_output()
    typer.run(main)
