"""The command `autograder site`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from autograder.authoring.course import ROOT

app = typer.Typer()


@app.command()
def site(
    week: Annotated[list[str] | None, typer.Argument(help="weeks to execute, week01 …; default: all")] = None,
    to: Annotated[Path, typer.Option(help="the folder of the site")] = ROOT / "build" / "site",
    url: Annotated[str, typer.Option(help="where the site will be published: adds a sitemap and a social card")] = "",
    side_by_side: Annotated[int, typer.Option(help="number of notebooks that run at once", min=1)] = 2,
) -> None:
    """Write the course as a website for offline reading: weeks with outputs, docs, glossary, search.

    Outputs are cached for the next build. If you name weeks, only those are executed, and the others have no outputs.
    """
    from autograder.authoring import notebooks
    from autograder.site.execute import execute_all
    from autograder.site.published import base_of
    from autograder.site.write import write_site

    began = time.monotonic()

    def done(name: str) -> None:
        typer.echo(f"{name}: outputs ready after {time.monotonic() - began:.0f} s")

    try:
        base_of(url)
        _refuse_without_sources()
        everything = notebooks.weeks()
        chosen = [notebooks.find_week(one) for one in week] if week else everything
        with_outputs = execute_all(chosen, side_by_side=side_by_side, done=done)
        solved = {name: with_outputs.get(name) or notebooks.read_source(name) for name in everything}
        pages = write_site(solved, to, url=url)
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    typer.echo(f"{len(pages)} pages, {size / 1e6:.1f} MB: open {to / 'index.html'}")


def _refuse_without_sources() -> None:
    from autograder.authoring import notebooks

    if not notebooks.pages_in(ROOT / "solutions", ".py"):
        raise ValueError("the site's outputs are made from solutions/, which this copy of the course does not include")
