"""The command `autograder dashboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def dashboard(
    week: Annotated[list[str] | None, typer.Argument(help="week01 …; all graded weeks without it")] = None,
    out: Annotated[Path, typer.Option(help="the page")] = Path("autograder/verdicts/dashboard.html"),
    names: Annotated[bool, typer.Option(help="--no-names: a page to show to the class")] = True,
) -> None:
    """Write a page about the class: points by exercise, common mistakes, seconds of grading."""
    from autograder import notebooks, verdict_files
    from autograder.dashboard.page import page
    from autograder.dashboard.summary import summarise

    try:
        asked = [notebooks.find_week(one) for one in week or []] or verdict_files.graded_weeks(notebooks.ROOT)
        if not asked:
            raise ValueError("no week was graded yet: run `autograder grade WEEK` first")
        summaries = [summarise(name, verdict_files.read_class(name, notebooks.ROOT)) for name in asked]
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(summaries, names=names), encoding="utf-8")
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(str(out))
