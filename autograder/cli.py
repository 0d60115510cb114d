"""The command `autograder`: build the notebooks, grade submissions, test the checks."""

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

app = typer.Typer(help="Build the notebooks of SYS-602, grade submissions, test the checks.", no_args_is_help=True)


@app.callback()
def autograder() -> None:
    """Build the notebooks of SYS-602, grade submissions, test the checks."""
    # Torch's own threads would busy-wait between small tensors and take the cores from the ranks.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@app.command()
def build(
    week: Annotated[str | None, typer.Argument(help="week01, or week01_collectives; all weeks without it")] = None,
    check: Annotated[bool, typer.Option("--check", help="write nothing; fail if course/ is stale")] = False,
    force: Annotated[bool, typer.Option("--force", help="overwrite a notebook that holds answers")] = False,
) -> None:
    """Build course/ from solutions/: the students' notebooks, all hints, and the answers that replace missing ones."""
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
            _fail(f"course/ is out of date for {', '.join(old)}: run `make notebooks` and commit the result")
        for name in [] if check else chosen:
            print(f"{notebooks.build(name, force=force)}{' (new)' if name in stale else ''}")
        if not check:
            hints.path_of().write_text(hints.text(), encoding="utf-8")
            if stand_ins.are_stale():
                stand_ins.path_of().write_text(stand_ins.text(), encoding="utf-8")
    except ValueError as error:
        _fail(str(error))


@app.command()
def minutes() -> None:
    """Print the estimated minutes of each page's core and optional part."""
    from autograder.authoring import minutes as estimate
    from autograder.authoring import notebooks

    for week in notebooks.weeks():
        found = estimate.minutes(week)
        print(f"{week:24} core {found.core:4.0f}  optional {found.optional:4.0f}")


@app.command()
def hide(
    week: Annotated[list[str] | None, typer.Argument(help="week12 …; without it, list the hidden weeks")] = None,
    show: Annotated[bool, typer.Option("--show", help="show these weeks again")] = False,
) -> None:
    """Hide weeks from students for now: they are not copied, listed or counted until --show."""
    from autograder.authoring import hiding, notebooks

    try:
        hidden = hiding.change([notebooks.find_week(one) for one in week or []], show=show)
    except (ValueError, OSError) as error:
        _fail(str(error))
    print(f"hidden: {', '.join(hidden) or 'none'}")


@app.command()
def solution(
    week: Annotated[str, typer.Argument(help="week01, or week01_collectives")],
    to: Annotated[Path, typer.Argument(help="the notebook to write")],
) -> None:
    """Write a week's notebook with its solutions, to hand out after the due date."""
    from autograder.authoring import solution as solved

    try:
        print(solved.write(week, to))
    except (ValueError, OSError) as error:
        _fail(str(error))


@app.command()
def measure(exercise: Annotated[str, typer.Argument(help="week02.assign-buckets")]) -> None:
    """Print as JSON what the course's solution sends and holds on an exercise's visible cases."""
    from autograder.matrices.own_solutions import measured

    try:
        print(json.dumps(measured(exercise)))
    except ValueError as error:
        _fail(str(error))


@app.command("own-collect")
def own_collect(folder: Annotated[Path, typer.Argument(help="A learner's folder, such as work/")]) -> None:
    """Rebuild a learner's mine/ from the answers on their pages that have passed."""
    from shardlab.study.folder import find

    from autograder.judging.keeping import collect

    try:
        print("\n".join(collect(find(folder))) or "No answer for mine/ has passed yet.")
    except ValueError as error:
        _fail(str(error))


@app.command("own-source")
def own_source(folder: Annotated[Path, typer.Argument(help="where to write the package, such as build/own")]) -> None:
    """Write the trainer built from the course's own answers, as a plain package `mine`."""
    from autograder.reading import stand_ins

    print(stand_ins.write_source(folder))


@app.command("unpack-mine")
def unpack_mine(
    notebook: Annotated[Path, typer.Argument(help="a submitted notebook", exists=True, dir_okay=False)],
    folder: Annotated[Path, typer.Argument(help="a new folder, which gets a package mine/")],
) -> None:
    """Write the modules of `mine` that a submitted notebook holds; runs none of them."""
    from autograder.reading import notebook_file, own

    try:
        modules, notes = own.modules_in(notebook_file.parse(notebook.read_bytes()))
    except notebook_file.NotReadable as error:
        _fail(f"{notebook}: {error}")
    for note in notes:
        typer.echo(note, err=True)
    if not modules:
        _fail(f"{notebook} holds no modules: run its cell `pack()` in a folder that has mine/, then save")
    try:
        (folder / "mine").mkdir(parents=True)
    except FileExistsError:
        _fail(f"{folder / 'mine'} exists already: name a new folder")
    for name, source in modules.items():
        (folder / "mine" / f"{name}.py").write_text(source, encoding="utf-8")
    print(f"Wrote {len(modules)} modules to {folder / 'mine'}.")


@app.command("new-exercise")
def new_exercise(
    exercise: Annotated[str, typer.Argument(help="the week, a dot and a new name, such as week01.ring-rounds")],
    points: Annotated[float, typer.Option(help="points of the exercise", min=0.5)] = 2,
) -> None:
    """Create a working exercise: cells of the page, check, known answers."""
    from autograder.authoring.new_exercise import add_exercise

    _laid_out(lambda: add_exercise(exercise, points))


@app.command("new-week")
def new_week(week: Annotated[str, typer.Argument(help="the number and the topic, such as week17_own_topic")]) -> None:
    """Create a week with a page, one working exercise, and a test."""
    from autograder.authoring.new_exercise import add_week

    _laid_out(lambda: add_week(week))


def _laid_out(add: Callable[[], list[Path]]) -> None:
    try:
        paths = add()
    except ValueError as error:
        _fail(str(error))
    print("It works as it is. Edit these files, then run `make notebooks` and `autograder kill-matrix`:")
    print("\n".join(str(path) for path in paths))


@app.command()
def grade(
    week: Annotated[
        str | None, typer.Argument(help="week01, or week01_collectives; without it, everything that has changed")
    ] = None,
    submitted: Annotated[Path, typer.Option(help="has STUDENT/WEEK/WEEK.ipynb")] = Path("autograder/submitted"),
    json_file: Annotated[Path | None, typer.Option("--json", help="also write points and feedback here")] = None,
    student: Annotated[list[str] | None, typer.Option(help="only this student (may be repeated)")] = None,
    section: Annotated[str, typer.Option(help="only this section of autograder/students.csv")] = "",
    seed: Annotated[int | None, typer.Option(help="the seed of an earlier run, to draw the same inputs")] = None,
    workers: Annotated[int | None, typer.Option(help="submissions at a time; default: cores + 1")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="a Dask cluster, such as tcp://10.0.0.1:8786", envvar="AUTOGRADER_SCHEDULER")
    ] = None,
    self_check: Annotated[bool, typer.Option("--self-check", help="allow a machine without isolation")] = False,
    due: Annotated[str, typer.Option(help="the gradebook's due date, such as 2026-11-20T23:59+08:00")] = "",
    publish: Annotated[bool, typer.Option(help="write the gradebook and feedback pages")] = True,
) -> None:
    """Grade a week, or everything that has changed: verdicts, nbgrader's gradebook, feedback pages, a CSV."""
    from autograder.authoring import notebooks
    from autograder.grading import desk, reports
    from autograder.sandboxes import zygote

    try:
        until = datetime.fromisoformat(due).astimezone() if due else None
        judges_here = scheduler is None  # otherwise the cluster's workers run the sandboxes and report their level
        if judges_here and zygote.level() < zygote.OFFICIAL and not (self_check and not publish):
            _fail(reports.no_isolation())
        wishes = desk.Wishes(submitted, seed, workers, scheduler, until, publish, json_file)
        if week is not None:
            name = notebooks.find_week(week)
            desk.grade_week(name, wishes, desk.chosen(name, submitted, student or [], section))
        elif student or section or due or json_file:
            _fail("--student, --section, --due and --json need a week: `autograder grade week01 …`")
        elif not desk.grade_what_changed(wishes):
            print("Nothing has changed: every submission has a current verdict.")
    except ValueError as error:
        _fail(str(error))


@app.command()
def reviews(
    week: Annotated[str, typer.Argument(help="whose submissions are reviewed")] = "project",
    each: Annotated[int, typer.Option(help="reviews that each student writes, and receives")] = 1,
    seed: Annotated[int, typer.Option(help="draws the pairs; the same seed gives the same pairs")] = 1,
    submitted: Annotated[Path, typer.Option(help="has STUDENT/WEEK/WEEK.ipynb")] = Path("autograder/submitted"),
    table: Annotated[Path, typer.Option(help="the table to write")] = Path("autograder/reviews.csv"),
) -> None:
    """Draw who reviews whose submission, as a table: every student writes and receives the same number of reviews."""
    from autograder.authoring import notebooks
    from autograder.grading import reviews as peer
    from autograder.grading.grade import students_in

    try:
        peer.write(peer.pairs(students_in(submitted, notebooks.find_week(week)), each, seed), table)
    except ValueError as error:
        _fail(str(error))
    print(f"Wrote {table}.")


@app.command("kill-matrix")
def kill_matrix(
    week: Annotated[list[str] | None, typer.Argument(help="week01 …; all weeks without it")] = None,
) -> None:
    """Judge every known answer: wrong ones must be rejected, honest ones accepted."""
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
    seeds: Annotated[int, typer.Option(help="number of seeds that draw the inputs")] = 3,
    first_seed: Annotated[int, typer.Option(help="the first seed")] = 1,
) -> None:
    """Grade the course's own solutions like submissions: each must get every automatic point."""
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
    """Run a demo (under a minute): real ranks, predicted and measured bytes, an honest and a cheating submission."""
    from autograder import demo as show

    show.main()


def main() -> None:
    """Run the command line, with output that fits any terminal."""
    fit_output()
    app()


def _fail(sentence: str) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(2)


if __name__ == "__main__":
    main()
