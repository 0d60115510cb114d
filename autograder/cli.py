"""The command `autograder`: build the notebooks, grade submissions, prove the checks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from shardlab.meant import instead
from shardlab.terminal import fit_output

from autograder.dashboard import commands as dashboard
from autograder.integrity import commands as integrity
from autograder.leaderboard import commands as leaderboard
from autograder.lms import commands as lms
from autograder.matrices import commands as matrices
from autograder.site import commands as site

app = typer.Typer(help="Build the notebooks of SYS-602, grade submissions, prove the checks.", no_args_is_help=True)


@app.callback()
def autograder() -> None:
    """Build the notebooks of SYS-602, grade submissions, prove the checks."""
    # The ranks need the processors: torch's own threads, idle between small tensors, would wait in a loop.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@app.command()
def build(
    week: Annotated[str | None, typer.Argument(help="week01, or week01_collectives; all weeks without it")] = None,
    check: Annotated[bool, typer.Option("--check", help="write nothing; fail if course/ is stale")] = False,
    force: Annotated[bool, typer.Option("--force", help="overwrite a notebook that holds answers")] = False,
) -> None:
    """Build the students' notebooks of course/ from solutions/, the file with all hints, and the one with stand-ins."""
    from autograder.authoring import agreement, hints, notebooks
    from autograder.reading import stand_ins

    try:
        chosen = [notebooks.find_week(week)] if week else notebooks.weeks()
        for name in chosen:
            agreement.refuse_disagreement(name)
        stale = [name for name in chosen if notebooks.is_stale(name)]
        old = [*stale, *(["the hints"] if hints.are_stale() else [])]
        old += ["the answers for `mine`"] if stand_ins.are_stale() else []
        if check and old:
            _fail(f"course/ is older than solutions/ for {', '.join(old)}: run `make notebooks` and commit the result")
        for name in [] if check else chosen:
            print(f"{notebooks.build(name, force=force)}{' (new)' if name in stale else ''}")
        if not check:
            hints.path_of().write_text(hints.text(), encoding="utf-8")
            if stand_ins.are_stale():
                stand_ins.path_of().write_text(stand_ins.text(), encoding="utf-8")
    except ValueError as error:
        _fail(str(error))


@app.command()
def hide(
    week: Annotated[list[str] | None, typer.Argument(help="week12 …; without it, which weeks are hidden")] = None,
    show: Annotated[bool, typer.Option("--show", help="bring the weeks back")] = False,
) -> None:
    """Keep weeks from students for now: they are not laid out, listed or counted, until --show."""
    from autograder.authoring import hiding, notebooks

    try:
        hidden = hiding.change([notebooks.find_week(one) for one in week or []], show=show)
    except (ValueError, OSError) as error:
        _fail(str(error))
    print(f"hidden: {', '.join(hidden) or 'no week'}")


@app.command()
def solution(
    week: Annotated[str, typer.Argument(help="week01, or week01_collectives")],
    to: Annotated[Path, typer.Argument(help="the notebook to write")],
) -> None:
    """Write a week's notebook with its solutions, to give out after the due date."""
    from autograder.authoring import solution as solved

    try:
        print(solved.write(week, to))
    except (ValueError, OSError) as error:
        _fail(str(error))


@app.command()
def measure(exercise: Annotated[str, typer.Argument(help="week02.assign-buckets")]) -> None:
    """Print as JSON what the course's own solution sends and holds on an exercise's visible cases."""
    from autograder.matrices.own_solutions import measured

    try:
        print(json.dumps(measured(exercise)))
    except ValueError as error:
        _fail(str(error))


@app.command("own-collect")
def own_collect(folder: Annotated[Path, typer.Argument(help="A learner's folder, such as work/")]) -> None:
    """Write a learner's mine/ again, from the answers on their pages that have passed."""
    from shardlab.study.folder import find

    from autograder.judging.keeping import collect

    try:
        print("\n".join(collect(find(folder))) or "No answer for mine/ has passed yet.")
    except ValueError as error:
        _fail(str(error))


@app.command("own-source")
def own_source(folder: Annotated[Path, typer.Argument(help="where to write the package, such as build/own")]) -> None:
    """Write the trainer that the course's own answers make, as a plain package `mine`."""
    from autograder.reading import stand_ins

    print(stand_ins.write_source(folder))


@app.command("new-exercise")
def new_exercise(
    exercise: Annotated[str, typer.Argument(help="week01.ring-rounds: the week, a dot, a name of its own")],
    points: Annotated[float, typer.Option(help="what it is worth", min=0.5)] = 2,
) -> None:
    """Lay out an exercise that works: cells of the page, check, known answers."""
    from autograder.authoring.new_exercise import add_exercise

    _laid_out(lambda: add_exercise(exercise, points))


@app.command("new-week")
def new_week(week: Annotated[str, typer.Argument(help="week17_own_topic: the number, and its topic")]) -> None:
    """Lay out a week with a page, one exercise that works, and a test."""
    from autograder.authoring.new_exercise import add_week

    _laid_out(lambda: add_week(week))


def _laid_out(add: Callable[[], list[Path]]) -> None:
    try:
        paths = add()
    except ValueError as error:
        _fail(str(error))
    print("It works as it is. Now edit, then run `make notebooks` and `autograder kill-matrix`:")
    print("\n".join(str(path) for path in paths))


@app.command()
def grade(
    week: Annotated[
        str | None, typer.Argument(help="week01, or week01_collectives; without it, what has changed in all weeks")
    ] = None,
    submitted: Annotated[Path, typer.Option(help="holds STUDENT/WEEK/WEEK.ipynb")] = Path("autograder/submitted"),
    json_file: Annotated[Path | None, typer.Option("--json", help="write points and sentences here too")] = None,
    student: Annotated[list[str] | None, typer.Option(help="only this student (may be repeated)")] = None,
    section: Annotated[str, typer.Option(help="only this section of autograder/students.csv")] = "",
    seed: Annotated[int | None, typer.Option(help="draw the inputs of an earlier run again")] = None,
    workers: Annotated[int | None, typer.Option(help="submissions at a time, by default cores + 1")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="a Dask cluster, such as tcp://10.0.0.1:8786", envvar="AUTOGRADER_SCHEDULER")
    ] = None,
    self_check: Annotated[bool, typer.Option("--self-check", help="allow a machine without isolation")] = False,
    due: Annotated[str, typer.Option(help="the gradebook's due date, such as 2026-11-20T23:59+08:00")] = "",
    publish: Annotated[bool, typer.Option(help="write gradebook and feedback pages")] = True,
) -> None:
    """Grade a week, or what has changed in all of them: verdicts, nbgrader's gradebook, feedback pages, a CSV."""
    from autograder.authoring import notebooks
    from autograder.grading import desk, reports
    from autograder.sandboxes import zygote

    try:
        until = datetime.fromisoformat(due).astimezone() if due else None
        judges_here = scheduler is None  # else the cluster's workers have the sandboxes, and say which
        if judges_here and zygote.level() < zygote.OFFICIAL and not (self_check and not publish):
            _fail(reports.no_isolation())
        wishes = desk.Wishes(submitted, seed, workers, scheduler, until, publish, json_file)
        if week is not None:
            name = notebooks.find_week(week)
            desk.grade_week(name, wishes, desk.chosen(name, submitted, student or [], section))
        elif student or section or due or json_file:
            _fail("--student, --section, --due and --json need a week: `autograder grade week01 …`")
        elif not desk.grade_what_changed(wishes):
            print("Nothing has changed: every submission has a verdict that holds.")
    except ValueError as error:
        _fail(str(error))


@app.command("kill-matrix")
def kill_matrix(
    week: Annotated[list[str] | None, typer.Argument(help="week01 …; all weeks without it")] = None,
) -> None:
    """Judge every known wrong answer (must die) and every honest variant (must live)."""
    from autograder.matrices import reports
    from autograder.weeks import WEEKS

    unknown = [name for name in week or [] if name not in WEEKS]
    if unknown:
        _fail(f"no checks for {unknown[0]}: {instead(unknown[0], WEEKS)}")
    if not reports.print_kill_matrix(week):
        raise typer.Exit(1)


@app.command("own-solutions")
def own_solutions(
    week: Annotated[list[str] | None, typer.Argument(help="week01 …; all weeks without it")] = None,
    seeds: Annotated[int, typer.Option(help="how many draws of the inputs")] = 3,
    first_seed: Annotated[int, typer.Option(help="the first of them")] = 1,
) -> None:
    """Hand in the course's own solutions as students do: each must get every automatic point."""
    from autograder.matrices import own_solutions as own
    from autograder.matrices import reports

    try:
        rows = list(own.rows(week, range(first_seed, first_seed + seeds)))
    except ValueError as error:
        _fail(str(error))
    if not reports.print_own_solutions(rows):
        raise typer.Exit(1)


app.add_typer(lms.app)  # collect, export, anonymise
app.add_typer(integrity.app)  # audit, replay, similarity
app.add_typer(matrices.app)  # forged-matrix, stability
app.add_typer(leaderboard.app, name="leaderboard")
app.add_typer(site.app)
app.add_typer(dashboard.app)


@app.command()
def demo() -> None:
    """Under a minute: real ranks, prediction beside measurement, an honest and a cheating submission graded."""
    from autograder import demo as show

    show.main()


def main() -> None:
    """Run the command on any terminal."""
    fit_output()
    app()


def _fail(sentence: str) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(2)


if __name__ == "__main__":
    main()
