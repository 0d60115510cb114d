"""Every mesh of 2, 4 and 8 ranks with every schedule and ZeRO stage, against one process; goes on where it stopped.

Rows are kept in results/all-meshes.jsonl, one for each case and its text; results/all-meshes.md is made from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shardlab
from rich.console import Console

from benchmarks.row import Row, at_most
from tests.shardlab.hybrid.all_meshes import cases
from tests.shardlab.hybrid.five_axes import Case, differences, trained, trained_alone

RESULTS = Path(__file__).with_name("results")
FILE, TABLE = RESULTS / "all-meshes.jsonl", RESULTS / "all-meshes.md"
MOST_APART = 1e-5


def measure() -> list[Row]:
    """Train what is not in the file yet, write the table, and say how far the furthest was from one process.

    ALL_MESHES=n in the environment stops after so many new cases.
    """
    kept = read()
    most = int(os.environ.get("ALL_MESHES", "1000000"))
    progress = Console(stderr=True)
    todo = [case for case in cases() if str(case) not in kept]
    alone: dict[Any, Any] = {}
    for number, case in enumerate(todo[:most]):
        kept[str(case)] = row = judged(case, alone)
        with FILE.open("a") as file:
            file.write(json.dumps(row) + "\n")
        progress.print(f"{number + 1} of {len(todo)}: {row}", highlight=False)
    TABLE.write_text(table(list(kept.values()), len(cases())))
    trained_rows = [row for row in kept.values() if "weight" in row]
    return [
        at_most(
            f"largest difference of a {what}, {len(trained_rows)} meshes", max(row[what] for row in trained_rows), 1e-5
        )
        for what in ("loss", "weight")
    ]


def judged(case: Case, alone: dict[Any, Any]) -> dict[str, Any]:
    """One row: differences from one process, or the sentence of a refusal."""
    settings = case.settings
    key = (case.mesh.dp, settings.num_microbatches, case.config, case.moe is None, settings.bias_rate)
    if key not in alone:
        alone.clear()  # cases with one reference follow each other
        alone[key] = trained_alone(case)
    try:
        by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=170, observe=False)
    except Exception as error:
        return {"case": str(case), "refused": refusal_of(error)}
    loss, norm, weight = differences(case, by_rank, alone[key])
    return {"case": str(case), "loss": loss, "norm": norm, "weight": weight}


def refusal_of(error: Exception) -> str:
    """The last sentence of a rank's ValueError; other errors are told whole."""
    lines = [line for line in str(error).splitlines() if "ValueError" in line]
    return lines[-1].partition("ValueError: ")[2] if lines else f"NOT REFUSED BUT FAILED: {error}"


def read() -> dict[str, dict[str, Any]]:
    """The rows that are there, by case."""
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    return {row["case"]: row for row in map(json.loads, lines)}


def table(rows: list[dict[str, Any]], num_cases: int) -> str:
    """All rows as a page: what was compared, and what was refused with which sentence."""
    return "\n".join(_lines(rows, num_cases)) + "\n"


def _lines(rows: list[dict[str, Any]], num_cases: int) -> Iterator[str]:
    trained_rows = [row for row in rows if "weight" in row]
    refused = [row for row in rows if "refused" in row]
    yield "# Every mesh of 2, 4 and 8 ranks against one process"
    yield ""
    yield f"`python -m benchmarks all-meshes`: {len(rows)} of {num_cases} cases, ten steps of AdamW in float64."
    if trained_rows:
        worst = max(max(row["loss"], row["weight"]) for row in trained_rows)
        yield f"{len(trained_rows)} were trained; the largest difference of a loss or a weight is {worst:.1e}."
    yield f"{len(refused)} were refused, each with a sentence."
    yield ""
    for sentence in sorted({row["refused"] for row in refused}):
        yield f"- {sum(row['refused'] == sentence for row in refused)}: {sentence}"
    yield ""
    yield "| case | loss | norm, relative | weight |"
    yield "|---|---|---|---|"
    for row in sorted(trained_rows, key=lambda row: row["case"]):
        yield f"| {row['case']} | {row['loss']:.0e} | {row['norm']:.0e} | {row['weight']:.0e} |"
