"""The command `shardlab predict`: reads a table of runs, writes it with predictions; no ranks and no torch."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shardlab.commands.plan import MOST_GPUS

WHOLE = (
    *("layers", "hidden", "heads", "kv_heads", "vocab", "seq", "n_gpus", "tp", "pp", "virtual_pp", "dp", "cp", "ep"),
    *("micro_batch", "global_batch"),
)
DEGREES = ("tp", "pp", "dp", "cp")
NEEDED = (*WHOLE, "ffn", "gpu", "arch")
MAY_BE_ABSENT = ("id", "source", "model", "recompute", "sp", "zero_stage", "schedule", "note", "precision")
DELIMITERS = ",;\t|"
PRECISIONS = ("16", "fp8", "fp4", "half", "mixed", "amp")  # of matmuls; there is no time model for fp32
LONGEST = 200  # how many characters of a reason to print


@dataclass(frozen=True)
class Table:
    """A CSV file as read: its rows by column. Fields beyond the last column are stored under None."""

    columns: list[str]
    rows: list[dict]
    delimiter: str


def predict(
    runs: Annotated[Path, typer.Option("--runs", help="CSV file with the columns of costs/data/published_runs.csv.")],
    out: Annotated[Path, typer.Option("--out", help="CSV file to write: the same rows with five more columns.")],
) -> None:
    """Predict the step time and memory of each run in a CSV file, without reading the reported results.

    Adds predicted_step_s; its 90% interval, predicted_step_low_s to predicted_step_high_s; predicted_mem_GB; and
    not_predicted, the reason if there is no prediction.
    """
    from shardlab.costs.uncertainty import COVERAGE, error_factor, held_out_residuals
    from shardlab.costs.validation.predictions import ADDED

    try:
        table = _read(runs)
    except ValueError as error:
        raise typer.BadParameter(f"{runs} {error}", param_hint="--runs") from None
    if absent := [name for name in MAY_BE_ABSENT if name not in table.columns]:
        typer.echo(f"{runs} has no column {', '.join(absent)}: treated as not stated")
    done = [row | _answer(row) for row in table.rows]
    columns = [*table.columns, *(name for name in ADDED if name not in table.columns)]
    try:
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(
                file, columns, lineterminator="\n", extrasaction="ignore", delimiter=table.delimiter
            )
            writer.writeheader()
            writer.writerows(done)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {out}: {error.strerror}", param_hint="--out") from None
    refused = [row for row in done if row["not_predicted"]]
    typer.echo(f"wrote {out}: {len(done) - len(refused)} of {len(done)} runs predicted")
    factor = error_factor(held_out_residuals())
    typer.echo(
        f"step times have a {COVERAGE:.0%} interval, a factor of {factor:.2f} up and down: the error on published "
        "runs when the constants are fitted without their source"
    )
    for row in refused[:10]:
        typer.echo(f"  {_short(row.get('id') or '(no id)')}: {_short(row['not_predicted'])}")
    if len(refused) > 10:
        typer.echo(f"  and {len(refused) - 10} more: see the column not_predicted")


def _read(path: Path) -> Table:
    """Read a file as a table. Drops a byte-order mark and takes the delimiter from the header.

    Raises ValueError with a message that continues a sentence starting with the file's name.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig").lstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read: {error.reason} at byte {error.start}, save it as CSV in UTF-8") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    try:
        delimiter = max(DELIMITERS, key=lambda sign: len({*NEEDED} & {*_header(text, sign)}))
        columns = _header(text, delimiter)
    except csv.Error as error:
        raise ValueError(f"cannot be read: {error}, on line 1") from None
    lines = csv.DictReader(_lines(text), columns, delimiter=delimiter, strict=True)
    try:
        rows = list(lines)[1:]
    except csv.Error as error:
        raise ValueError(f"cannot be read: {error}, on line {lines.reader.line_num}") from None
    if not rows:
        raise ValueError("has no rows: give a header and at least one run")
    if twice := sorted({name for name in columns if name and columns.count(name) > 1}):
        raise ValueError(f"has the column {', '.join(twice)} more than once: keep one")
    if missing := [name for name in NEEDED if name not in columns]:
        raise ValueError(f"lacks the column {', '.join(missing)}: see costs/data/README.md for what each contains")
    return Table(columns, rows, delimiter)


def _header(text: str, delimiter: str) -> list[str]:
    return [name.strip() for name in next(csv.reader(_lines(text), delimiter=delimiter, strict=True), [])]


def _lines(text: str) -> io.StringIO:
    return io.StringIO(text, newline="")


def _answer(row: dict) -> dict[str, str]:
    """The columns added to a row: time and memory, or why there are none."""
    from shardlab.costs.validation.predictions import ADDED, NO_ANSWER, predicted_rows

    if fault := next(_faults(row), ""):
        return dict(zip(ADDED, (*NO_ANSWER, fault), strict=True))
    [done] = predicted_rows([_as_published(row)])
    return {name: done[name] for name in ADDED}


def _as_published(row: dict) -> dict[str, str]:
    """The row with every column of a run, spelled as in the published table."""
    stated = dict.fromkeys(MAY_BE_ABSENT, "") | {name: (value or "").strip() for name, value in row.items() if name}
    spelled = {"sp": stated["sp"].capitalize(), "recompute": stated["recompute"].lower()}
    return stated | spelled | {"zero_stage": stated["zero_stage"].removesuffix(".0")}


def _faults(row: dict) -> Iterator[str]:
    """Yield contradictions, and values that would be silently misread. Other errors are reported where they occur."""
    if beyond := row.get(None):
        yield f"the row has {len(beyond)} more fields than columns: put text with a delimiter in quotes"
    given, written = _as_published(row), {name: (value or "").strip() for name, value in row.items() if name}
    for name in (*WHOLE, "ffn"):
        if math.isfinite(number := _number(given[name])) and not number.is_integer():
            yield f"{name} = {given[name]!r} is not a whole number: give one"
    for name in DEGREES:
        if _number(given[name]) < 1:
            yield f"{name} = {given[name]!r} is not a valid degree: use 1 or more"
    if math.prod(max(1.0, _number(given[name])) for name in DEGREES) > MOST_GPUS:
        yield f"{', '.join(DEGREES)}: use degrees whose product is at most {MOST_GPUS}"
    if given["sp"] not in ("True", "False", ""):
        yield f"sp = {written['sp']!r} is unknown: use True or False, or leave it empty"
    if given["recompute"] not in ("none", "full", "") and not given["recompute"].startswith("selective"):
        yield f"recompute = {written['recompute']!r} is unknown: use none, selective or full, or leave it empty"
    if given["zero_stage"] not in ("0", "1", "2", "3", ""):
        yield f"zero_stage = {written['zero_stage']!r} is unknown: use 0, 1, 2 or 3, or leave it empty"
    if given["precision"] and not any(name in given["precision"].lower() for name in PRECISIONS):
        yield f"precision = {written['precision']!r} is not modeled: use bf16, fp16 or fp8, or leave it empty"


def _number(text: str) -> float:
    """A cell as a number; nan for text, which is reported separately."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _short(text: str) -> str:
    """The text on one line, truncated to a readable length."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."
