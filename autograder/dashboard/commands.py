"""The command `autograder dashboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def dashboard(
    week: Annotated[list[str] | None, typer.Argument(help="week01 …; default: all graded weeks")] = None,
    out: Annotated[Path, typer.Option(help="the page")] = Path("autograder/verdicts/dashboard.html"),
    submitted: Annotated[Path, typer.Option(help="holds STUDENT/WEEK/WEEK.ipynb")] = Path("autograder/submitted"),
    names: Annotated[bool, typer.Option(help="--no-names makes a page to show to the class")] = True,
) -> None:
    """Write a page about the class: points per exercise, common mistakes, and what must be graded again."""
    from autograder.authoring import notebooks
    from autograder.dashboard.summary import page, summarise
    from autograder.grading import grade, hashes, verdict_files

    try:
        root, graded = notebooks.ROOT, verdict_files.graded_weeks(notebooks.ROOT)
        asked = [notebooks.find_week(one) for one in week or []] or graded
        if not asked:
            raise ValueError("no week has been graded yet: run `autograder grade WEEK` first")
        weeks = asked if week else sorted({*asked, *notebooks.weeks(root)})
        stale = {name: grade.stale(name, submitted, root) for name in weeks}
        summaries = [
            summarise(name, verdict_files.read_class(name, root), stale[name], hashes.checks_hash(name))
            for name in asked
        ]
        ungraded = {name: len(found) for name, found in sorted(stale.items()) if found and name not in asked}
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(summaries, names=names, ungraded=ungraded), encoding="utf-8")
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(str(out))
