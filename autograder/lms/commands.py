"""The commands `autograder collect`, `export` and `anonymise`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer()
Week = Annotated[str, typer.Option(help="week01, or week01_collectives")]
Submitted = Annotated[Path, typer.Option(help="holds STUDENT/WEEK/WEEK.ipynb")]
SUBMITTED = Path("autograder/submitted")
KEY = Path("autograder/verdicts/.anonymous.key")


@app.command()
def collect(
    source: Annotated[
        Path,
        typer.Argument(help="the zip file of Canvas's or Moodle's “Download submissions”, or a CSV of repositories"),
    ],
    week: Week,
    submitted: Submitted = SUBMITTED,
    replace: Annotated[bool, typer.Option("--replace", help="overwrite a submission that is there")] = False,
    due: Annotated[str, typer.Option(help="such as 2026-11-20T23:59+08:00; the gradebook's without it")] = "",
) -> None:
    """Bring in a Canvas or Moodle download, or repositories; every file or student gets a line in the report."""
    from autograder import notebooks
    from autograder.lms import points, reports, repositories
    from autograder.lms.collect import collect as bring_in

    from_git = source.suffix.lower() == ".csv"
    try:
        name = notebooks.find_week(week)
        until = datetime.fromisoformat(due).astimezone() if due else points.due_date(name, notebooks.ROOT)
        if from_git:
            lines = repositories.collect(source, name, submitted, replace=replace)
        else:
            lines = bring_in(source, name, submitted, replace=replace, due=until)
    except ValueError as error:
        _fail(error)
    reports.print_collected(lines, until, from_git=from_git)


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="the CSV to write")],
    week: Week,
    lms: Annotated[str, typer.Option(help="canvas or moodle")],
    template: Annotated[Path | None, typer.Option(help="the gradebook or worksheet that the LMS exports")] = None,
    column: Annotated[str, typer.Option(help="Canvas's column; the one named after the week without it")] = "",
    scale: Annotated[bool, typer.Option("--scale", help="convert to the LMS's highest possible points")] = False,
    submitted: Submitted = SUBMITTED,
) -> None:
    """Write the points of a week, with written answers and late penalties, as the LMS imports them."""
    from autograder import notebooks
    from autograder.lms import export as exporting
    from autograder.lms import points

    try:
        if template is not None and out.exists() and out.samefile(template):
            raise ValueError(f"{out} is the template: write to another file, and keep the LMS's own")
        name = notebooks.find_week(week)
        scores, notes = points.scores(name, lms, submitted, notebooks.ROOT)
        table = exporting.export(lms, name, scores, template, column, scale)
        exporting.write(table, out)
    except (ValueError, OSError) as error:
        _fail(error)
    for note in [*notes, *table.notes, f"Written: {out}"]:
        typer.echo(note)


@app.command()
def anonymise(
    back: Annotated[list[str] | None, typer.Argument(help="anonymous ids to turn back into students")] = None,
    week: Annotated[str, typer.Option(help="with --to: the week to copy")] = "",
    to: Annotated[Path | None, typer.Option(help="copy a week's submissions here, under anonymous ids")] = None,
    submitted: Submitted = SUBMITTED,
    key: Annotated[Path, typer.Option(help="the key file; made, for its owner alone, where there is none")] = KEY,
) -> None:
    """Stable anonymous ids of the students, and the way back."""
    from autograder import grade, notebooks
    from autograder.lms import anonymous

    try:
        name = notebooks.find_week(week) if week else ""
        if (to is None) != (not week):
            raise ValueError("--to and --week go together: the folder to copy to, and the week to copy")
        if name:
            students = grade.students_in(submitted, name)
        elif submitted.is_dir():
            students = [path.name for path in submitted.iterdir() if path.is_dir()]
        else:
            raise ValueError(f"{submitted} is not a folder: give the folder that holds the students")
        key.parent.mkdir(parents=True, exist_ok=True)
        ids = anonymous.mapping(students, anonymous.read_key(key))
        unknown = sorted(set(back or []) - set(ids.values()))
        if unknown:
            raise ValueError(f"no student of {submitted} has the id {', '.join(unknown)} with this key")
        problems = anonymous.copy_week(name, submitted, to, ids) if to is not None else []
    except (ValueError, OSError) as error:
        _fail(error)
    for student, one in ids.items():
        if not back or one in back:
            typer.echo(f"{one}  {student}")
    for problem in problems:
        typer.echo(problem)


def _fail(error: Exception) -> NoReturn:
    typer.echo(str(error), err=True)
    raise typer.Exit(2)
