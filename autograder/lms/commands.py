"""The commands `autograder exchange`, `collect`, `export` and `anonymise`."""

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
    week: Week,
    source: Annotated[
        Path | None,
        typer.Argument(
            help="the zip file from Canvas's or Moodle's “Download submissions”, or a CSV of repositories; "
            "default: nbgrader's exchange"
        ),
    ] = None,
    submitted: Submitted = SUBMITTED,
    replace: Annotated[bool, typer.Option("--replace", help="overwrite an existing submission")] = False,
    due: Annotated[str, typer.Option(help="such as 2026-11-20T23:59+08:00; default: the gradebook's")] = "",
) -> None:
    """Collect a week from the exchange, a Canvas or Moodle download, or repositories, and print a report."""
    from autograder.authoring import notebooks
    from autograder.grading import roster
    from autograder.lms import exchange as folders
    from autograder.lms import from_exchange, points, reports, repositories
    from autograder.lms.collect import collect as bring_in

    kind = "exchange" if source is None else "git" if source.suffix.lower() == ".csv" else "archive"
    try:
        known = roster.of_course(notebooks.ROOT)
        name = notebooks.find_week(week)
        until = datetime.fromisoformat(due).astimezone() if due else points.due_date(name, notebooks.ROOT)
        if source is None:
            wanted = from_exchange.Collection(name, submitted, known, replace)
            lines = from_exchange.collect(wanted, *folders.place_of(notebooks.ROOT))
        elif kind == "git":
            lines = repositories.collect(source, name, submitted, known, replace=replace)
        else:
            lines = bring_in(source, name, submitted, known, replace=replace, due=until)
    except ValueError as error:
        _fail(error)
    reports.print_collected(lines, until, kind)


@app.command()
def exchange(
    owner: Annotated[str, typer.Option(help="the instructor's account, if root runs this; default: yours")] = "",
) -> None:
    """Create or repair the folders of nbgrader's exchange, so that no student can replace one."""
    import os
    import pwd

    from autograder.authoring import notebooks
    from autograder.lms import exchange as folders

    try:
        place, course = folders.place_of(notebooks.ROOT)
        user = pwd.getpwnam(owner).pw_uid if owner else os.geteuid()
        done = folders.make(place, course, user)
        left = folders.problems(place, course, user)
    except KeyError:
        _fail(ValueError(f"{owner!r} is not an account on this machine: pass the instructor's as --owner"))
    except (ValueError, OSError) as error:
        _fail(error)
    for sentence in [*done, *left]:
        typer.echo(sentence)
    if left:
        raise typer.Exit(1)
    typer.echo(f"The exchange {place} is ready for {course}.")


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="the CSV to write")],
    week: Week,
    lms: Annotated[str, typer.Option(help="canvas or moodle")],
    template: Annotated[Path | None, typer.Option(help="the gradebook or worksheet exported from the LMS")] = None,
    column: Annotated[str, typer.Option(help="Canvas's column; default: the one named after the week")] = "",
    scale: Annotated[bool, typer.Option("--scale", help="convert to the LMS's maximum points")] = False,
    submitted: Submitted = SUBMITTED,
    section: Annotated[str, typer.Option(help="only this section of students.csv")] = "",
) -> None:
    """Write the points of a week, including written answers and late penalties, in the LMS's import format."""
    from autograder.authoring import notebooks
    from autograder.grading import roster
    from autograder.lms import export as exporting
    from autograder.lms import points

    try:
        if template is not None and out.exists() and out.samefile(template):
            raise ValueError(f"{out} is the template: write to another file to keep the LMS's original")
        name = notebooks.find_week(week)
        scores, notes = points.scores(name, lms, submitted, notebooks.ROOT)
        if section:
            own = set(roster.of_course(notebooks.ROOT).in_section(section))
            scores = [one for one in scores if one.student in own]
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
    to: Annotated[Path | None, typer.Option(help="copy a week's submissions here under anonymous ids")] = None,
    submitted: Submitted = SUBMITTED,
    key: Annotated[Path, typer.Option(help="the key file; created, readable only by you, if it does not exist")] = KEY,
) -> None:
    """Print stable anonymous ids of the students, or turn ids back into students."""
    from autograder.authoring import notebooks
    from autograder.grading import grade
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
            raise ValueError(f"{submitted} is not a folder: pass the folder that contains the students")
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
