"""The commands `autograder forged-matrix` and `stability`, which take hours for all weeks and can be resumed."""

from __future__ import annotations

from typing import Annotated

import typer
from shardlab.meant import instead

app = typer.Typer()
Weeks = Annotated[list[str] | None, typer.Argument(help="week01 …; all weeks without it")]
Judges = Annotated[int, typer.Option(help="how many judges work in parallel")]


@app.command("forged-matrix")
def forged_matrix(week: Weeks = None, judges: Judges = 2) -> None:
    """Judge every wrong answer behind every forgery; exit with 1 if false reports earn points."""
    from autograder.matrices import forged, known, reports
    from autograder.matrices.kept import RowFile, kept_folder

    checks = _checks(week)
    rows, kept = forged.everything(checks), RowFile(kept_folder() / "forged-matrix.jsonl")
    rights = {row.check.exercise: known.right_of(row.check.exercise).source for row in rows}
    seen = reports.print_forged(forged.judged(rows, rights, kept, judges))
    kept.settle({check.exercise.split(".")[0] for check in checks}, {row.key for row in rows})
    reports.write_forged(kept.rows(), kept_folder() / "forged-matrix.md")
    raise typer.Exit(1 if any(map(forged.is_undeserved, seen)) else 0)


@app.command()
def stability(
    week: Weeks = None,
    seeds: Annotated[int, typer.Option(help="for right answers; wrong ones get a quarter, formulas 5/2 of it")] = 20,
    judges: Judges = 2,
) -> None:
    """Judge every known answer under many seeds; exit with 1 if the points of an answer differ."""
    from autograder.matrices import reports
    from autograder.matrices import stability as matrix
    from autograder.matrices.kept import RowFile, kept_folder

    checks = _checks(week)
    rows, kept = matrix.everything(checks, seeds), RowFile(kept_folder() / "stability.jsonl")
    seen = reports.print_stability(matrix.judged(rows, kept, judges))
    kept.settle({check.exercise.split(".")[0] for check in checks}, {row.key for row in rows})
    reports.write_stability(kept.rows(), kept_folder() / "stability.md")
    raise typer.Exit(1 if any(map(matrix.differs, seen)) else 0)


def _checks(weeks: list[str] | None) -> list:
    from autograder.sandboxes import zygote
    from autograder.weeks import WEEKS

    if zygote.level() < zygote.OFFICIAL:  # packets are not read there, so rows would not predict grades
        typer.echo(f"this machine has isolation level {zygote.level()}; the matrices need {zygote.OFFICIAL}", err=True)
        raise typer.Exit(2)
    unknown = [name for name in weeks or [] if name not in WEEKS]
    if unknown:
        typer.echo(f"no checks for {unknown[0]}: {instead(unknown[0], WEEKS)}", err=True)
        raise typer.Exit(2)
    return [check for name in weeks or list(WEEKS) for check in WEEKS[name]]
