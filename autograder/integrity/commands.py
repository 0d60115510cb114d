"""The commands `autograder audit`, `replay` and `similarity`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer()
Student = Annotated[str, typer.Argument(help="the student's folder")]
Week = Annotated[str, typer.Option(help="week01, or week01_collectives")]
Submitted = Annotated[Path, typer.Option(help="holds STUDENT/WEEK/WEEK.ipynb")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
SUBMITTED = Path("autograder/submitted")


@app.command()
def audit(student: Student, week: Week, submitted: Submitted = SUBMITTED, as_json: Json = False) -> None:
    """Print what determined a verdict; exit status 1 if something has changed since."""
    from autograder.integrity import reports
    from autograder.integrity.audit import audit as look

    try:
        facts = look(student, week, submitted)
    except ValueError as error:
        _fail(error)
    if as_json:
        typer.echo(json.dumps([asdict(fact) for fact in facts], indent=1, ensure_ascii=False))
    else:
        reports.print_audit(student, facts)
    raise typer.Exit(1 if any(fact.problem for fact in facts) else 0)


@app.command()
def replay(student: Student, week: Week, submitted: Submitted = SUBMITTED) -> None:
    """Judge a submission again with the recorded seed; exit status 1 if points changed. Nothing is written."""
    from autograder.integrity import reports
    from autograder.integrity.replay import replay as again
    from autograder.judging.judge import Judge

    try:
        with Judge() as judge:
            result = again(student, week, submitted, judge)
    except ValueError as error:
        _fail(error)
    reports.print_replay(student, result)
    raise typer.Exit(0 if result.is_same else 1)


@app.command()
def similarity(week: Week, submitted: Submitted = SUBMITTED, as_json: Json = False) -> None:
    """Report pairs of submissions with suspiciously similar answers: leads for a human, not verdicts."""
    from autograder.authoring import notebooks
    from autograder.grading import grade
    from autograder.integrity import reports
    from autograder.integrity.similarity import NOTE, compare_week

    try:
        name = notebooks.find_week(week)
        report = compare_week(name, submitted, grade.students_in(submitted, name))
    except ValueError as error:
        _fail(error)
    if as_json:
        typer.echo(json.dumps({"note": NOTE, **asdict(report)}, indent=1, ensure_ascii=False))
    else:
        reports.print_similarity(report)


def _fail(error: Exception) -> NoReturn:
    typer.echo(str(error), err=True)
    raise typer.Exit(2)
