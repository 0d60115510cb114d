"""The commands `autograder leaderboard time` and `merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The board of week 15: recipes timed against the reference, merged into one page.")
BOARD = Path("autograder/verdicts/leaderboard")


@app.command("time")
def time_recipes(
    submitted: Annotated[Path, typer.Option(help="holds STUDENT/WEEK/WEEK.ipynb")] = Path("autograder/submitted"),
    student: Annotated[list[str] | None, typer.Option(help="only this student (may be repeated)")] = None,
    out: Annotated[Path, typer.Option(help="the file for this machine's entries")] = BOARD / "entries.jsonl",
) -> None:
    """Race recipes that keep the memory cap: best of three, alternating with the reference. Stop other programs."""
    import shardlab
    from shardlab.hybrid.race import race

    from autograder.grading import grade
    from autograder.judging.judge import Judge
    from autograder.leaderboard import board

    try:
        names = student or grade.students_in(submitted, board.WEEK)
    except ValueError as error:
        _fail(str(error))
    entries = []
    with Judge() as judge:
        for name in names:
            try:
                recipe = board.recipe_of(name, submitted, judge)
                if problem := board.problem_of(recipe, seed=0):
                    raise ValueError(problem)
            except ValueError as error:
                typer.echo(f"{name}: not on the board. {error}")
                continue
            entries.append(
                board.timed(name, recipe, lambda one: shardlab.run(race, one, ranks=one.mesh.world, timeout=120))
            )
            typer.echo(f"{name}: {entries[-1].ratio:.2f} times the reference")
    board.write(entries, out)
    typer.echo(str(out))


@app.command()
def merge(
    files: Annotated[list[Path], typer.Argument(help="entry files, from one or several machines")],
    out: Annotated[Path, typer.Option(help="the page")] = BOARD / "board.html",
) -> None:
    """Merge entry files into one page: each student's latest entry, sorted by its ratio to the reference."""
    from autograder.leaderboard import board

    try:
        entries = board.merged([board.read(path) for path in files])
    except (OSError, ValueError) as error:
        _fail(str(error))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(board.page(entries), encoding="utf-8")
    typer.echo(f"{len(entries)} entries: {out}")


def _fail(sentence: str) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(2)
