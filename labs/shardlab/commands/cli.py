"""The command `shardlab`."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from shardlab.commands.calibrate import calibrate
from shardlab.commands.memory import memory
from shardlab.commands.mesh import mesh
from shardlab.commands.plan import plan
from shardlab.commands.predict import predict
from shardlab.commands.schedule import schedule
from shardlab.commands.study import study
from shardlab.terminal import fit_output

if TYPE_CHECKING:
    from shardlab.commands.doctor import Finding

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The lab package of SYS-602.")


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    brief: Annotated[
        bool, typer.Option("--brief", help="Takes a second: starts no ranks, shows only what needs attention.")
    ] = False,
) -> None:
    """Check this machine, report problems and suggest fixes. Runs a real all-reduce.

    The exit code is 0, or 1 if a problem blocks the course.
    """
    from shardlab.commands.doctor import NOTE, OK, PROBLEM, examine

    findings: list[Finding] = []
    for finding in _apart(examine(brief)):
        findings.append(finding)
        if not json and not (brief and finding.state == OK):
            _show(finding)
    states = [finding.state for finding in findings]
    worst = next((state for state in (PROBLEM, NOTE) if state in states), OK)
    if json:
        typer.echo(json_format.dumps({"state": worst, "findings": [asdict(f) for f in findings]}, indent=2))
    else:
        _summarise(states, brief)
    raise typer.Exit(1 if worst == PROBLEM else 0)


app.command()(calibrate)
app.command()(schedule)
app.command()(mesh)
app.command()(plan)
app.command()(memory)
app.command()(predict)
app.add_typer(study, name="study")


def main() -> None:
    """Adapt output to the terminal, then run the command."""
    fit_output()
    app()


def _apart(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings. Output of ranks meanwhile goes to standard error, as it is not part of the answer."""
    while True:
        with redirect_stdout(sys.stderr):
            finding = next(findings, None)
        if finding is None:
            return
        yield finding


def _show(finding) -> None:
    """Print one line with the advice below it. The color only repeats the word."""
    from rich.console import Console
    from rich.table import Table

    colour = {"ok": "green", "note": "yellow", "problem": "bold red"}[finding.state]
    line = Table.grid(padding=(0, 2))
    line.add_column(width=7)
    line.add_column(width=16)
    line.add_column(overflow="fold")
    line.add_row(f"[{colour}]{finding.state}[/]", finding.name, finding.value, style=None)
    if finding.advice:
        line.add_row("", "", f"→ {finding.advice}")
    Console(highlight=False).print(line)


def _summarise(states: list[str], brief: bool) -> None:
    notes, problems = states.count("note"), states.count("problem")
    if problems:
        typer.echo(
            f"\n{problems} of {len(states)} checks found a problem that blocks the course: follow the arrows (→)."
        )
        return
    more = "; `shardlab doctor` also runs real ranks" if brief else ""
    noted = f", {notes} noted" if notes else ""
    typer.echo(f"{'' if brief else chr(10)}This machine is ready for the course ({len(states)} checks{noted}){more}.")
