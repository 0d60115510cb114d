"""The command `shardlab study`: progress, page updates, hints, cards, export and import. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

if TYPE_CHECKING:
    from shardlab.study.folder import Folder

Arguments = ParamSpec("Arguments")
study = typer.Typer(add_completion=False, help="Your progress, what to do next, page updates, hints and cards.")
WHAT = typer.Argument(help="An exercise, such as week02.assign-buckets, or any unambiguous part of it: week02.bucket.")
Exercise = Annotated[str, WHAT]


@dataclass(frozen=True)
class Chosen:
    """The learner's folder from the command line; None means the one around the current directory, else work/."""

    folder: Path | None


def in_sentences(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Make a command end with one sentence and exit code 1 if a page, a name or the disk is not as expected."""

    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        from shardlab.study.trouble import TROUBLE, sentence

        try:
            command(*args, **kwargs)
        except TROUBLE as error:
            typer.echo(sentence(error), err=True)
            raise typer.Exit(1) from None

    return run


@study.callback(invoke_without_command=True)
@in_sentences
def overview(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Option(help="Your folder [default: the folder that contains this directory, else work/].")
    ] = None,
) -> None:
    """Show your weeks, points, tries, hints and time, and what to do next."""
    context.obj = Chosen(folder)
    if context.invoked_subcommand is None:
        from shardlab.own import shown
        from shardlab.study import told

        _show(told.overview(_folder(context)))
        typer.echo(shown.summary(_folder(context)))


@study.command()
@in_sentences
def begin(context: typer.Context) -> None:
    """Create your folder with a page for each week, and write its home page. Existing weeks are left as they are."""
    from shardlab.home import write_start
    from shardlab.study import folder, update

    found, laid_out = folder.begin(context.obj.folder)
    write_start(found)
    if laid_out:
        typer.echo(f"{found.path}: created {len(laid_out)} pages. Your answers are saved here; updates keep them.")
    if behind := [week for week in found.weeks() if update.is_behind(found, week)]:
        typer.echo(
            f"The course has newer pages ({len(behind)}): `shardlab study update` gets them and keeps your answers."
        )


@study.command()
@in_sentences
def update(
    context: typer.Context,
    week: Annotated[str | None, typer.Argument(help="A week, such as week02 [default: all weeks].")] = None,
) -> None:
    """Update pages, keep your answers and list the changes. Save and close the pages first."""
    from shardlab.study import folder
    from shardlab.study.trouble import TROUBLE, sentence
    from shardlab.study.update import update as update_page

    found, laid_out = folder.begin(_folder(context).path)
    weeks = [found.week(week)] if week else found.weeks()
    failed = False
    for name in weeks:
        if name in laid_out:
            typer.echo(f"{name}: created; it was missing.")
            continue
        try:
            done = update_page(found, name)
        except TROUBLE as error:
            typer.echo(f"{name}: {sentence(error).removesuffix('.')}.", err=True)
            failed = True
            continue
        if done is not None:
            typer.echo(f"{name}: updated; the old page is {done.backup.relative_to(found.path)}")
            for line in done.told:
                typer.echo(f"  {line}")
        elif week:
            typer.echo(f"{name}: already up to date.")
    if not week and not failed and all(name not in laid_out for name in weeks):
        typer.echo("Every page is up to date.")
    raise typer.Exit(1 if failed else 0)


@study.command()
@in_sentences
def reset(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="week02 for a whole page, or week02.assign-buckets for one exercise.")],
) -> None:
    """Reset an exercise or a page. Your old version is saved in attempts/."""
    from shardlab.study import records
    from shardlab.study.update import reset_exercise, reset_week

    found = _folder(context)
    if "." in what:
        names = [found.exercise(what).name]
        kept = reset_exercise(found, names[0])
    else:
        week = found.week(what)
        names = [one for one in found.exercises() if one.startswith(f"{week.split('_')[0]}.")]
        kept = reset_week(found, week)
    if kept is None:
        typer.echo(f"{names[0]} is already blank.")
        return
    troubles = {records.note("reset", path=found.path, exercise=name) for name in names} - {""}
    for trouble in troubles:
        typer.echo(trouble, err=True)
    typer.echo(f"Reset. Your old version: {kept.relative_to(found.path)}. Reload the page in JupyterLab.")


@study.command()
@in_sentences
def hint(context: typer.Context, exercise: Exercise) -> None:
    """Open the next of an exercise's three hints."""
    from shardlab.study import hints, told

    _show(told.hints(hints.next_hint(_folder(context), exercise)))


@study.command()
@in_sentences
def solution(
    context: typer.Context,
    exercise: Exercise,
    compare: Annotated[bool, typer.Option(help="Run it on the visible cases to compare bytes.")] = True,
) -> None:
    """Show the course's solution next to yours, after three different answers or with full points."""
    from shardlab.study import hints, told

    _show(told.solution(hints.solution(_folder(context), exercise, measured=compare)))


@study.command()
@in_sentences
def compare(context: typer.Context, exercise: Exercise) -> None:
    """Show your solution and the course's, and the bytes that each sends and holds on the visible cases."""
    solution(context, exercise, compare=True)


@study.command()
@in_sentences
def cards(
    context: typer.Context,
    most: Annotated[int, typer.Option(min=1, help="Maximum number of cards to ask.")] = 10,
    all: Annotated[bool, typer.Option("--all", help="Also ask about weeks that you have not started.")] = False,
) -> None:
    """Ask the interview questions that are due: say your answer aloud, read the model answer, be honest."""
    from shardlab.study import records
    from shardlab.study.cards import DAYS, answered, due

    found = _folder(context)
    waiting = due(found, records.read(found.records)[0], every_week=all)
    if not waiting:
        typer.echo("No card is due. `--all` also asks about weeks that you have not started.")
    for number, card in enumerate(waiting[:most], 1):
        typer.echo(f"\n{number} of {min(most, len(waiting))} · {card.week}\n{card.question}")
        try:
            typer.prompt("Say your answer, then press Enter", default="", show_default=False)
            known = typer.confirm(f"{card.answer}\nDid you know it?")
        except typer.Abort:
            typer.echo("\nStopped. Your answers so far are saved.")
            return
        if trouble := answered(found, card, known):
            typer.echo(trouble, err=True)
            raise typer.Exit(1)
        days = DAYS[min(card.box, len(DAYS) - 1)] if known else DAYS[0]
        typer.echo(f"You will see it again in {days} {'day' if days == 1 else 'days'}.")


@study.command()
@in_sentences
def mine(
    context: typer.Context,
    collect: Annotated[bool, typer.Option("--collect", help="Rewrite mine/ from your saved pages.")] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Train with your parts here and write mine/README.md.")
    ] = False,
) -> None:
    """Show which parts of your own trainer are yours and which are still the course's."""
    from shardlab.own import shelf, shown

    found = _folder(context)
    if measure:
        from shardlab.commands import trainer_report as report

        typer.echo("Training seven layouts on 8 ranks: this takes a few minutes.")
        typer.echo(report.write(found))
        return
    if collect:
        typer.echo(shelf.collected(found))
    _show(shown.table(found))


@study.command("export")
@in_sentences
def export_(
    context: typer.Context, file: Annotated[Path, typer.Argument(help="A new file, such as mine.zip.")]
) -> None:
    """Export everything of yours to one file: pages, attempts, records and cards."""
    from shardlab.study.bundle import export

    done = export(_folder(context), file)
    typer.echo(f"{file}: {done.count} files. Run `shardlab study import {file.name}` on the other machine.")
    if done.left_out:
        typer.echo(f"Left out, because an import would reject them: {', '.join(done.left_out)}")


@study.command("import")
@in_sentences
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file written by `shardlab study export`.")],
    replace: Annotated[bool, typer.Option("--replace", help="Set aside your existing work first.")] = False,
) -> None:
    """Import everything from one file into your folder. Import only files that you trust: a notebook is a program."""
    from shardlab.home import write_start
    from shardlab.study import folder
    from shardlab.study.bundle import bring

    found, _ = folder.begin(context.obj.folder)
    kept = bring(found, file, replace=replace)
    found, _ = folder.begin(found.path)
    write_start(found)
    typer.echo(f"Imported {file.name} into {found.path}. `shardlab study` shows your progress.")
    if kept is not None:
        typer.echo(f"Your previous work: {kept.relative_to(found.path)}")


def _folder(context: typer.Context) -> Folder:
    from shardlab.study.folder import find

    return find(context.obj.folder)


def _show(shown) -> None:
    from rich.console import Console

    Console(highlight=False).print(shown)
