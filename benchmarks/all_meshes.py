"""Compare every mesh of 2, 4 and 8 ranks, schedule and ZeRO stage with one process. Resumes where it stopped.

The cases of one mesh run one after another on the same ranks. The first cases give one row for every combination of
(dp, pp, cp, tp, ep), schedule and ZeRO stage; then follow other models on these meshes, and experts split by tp. Rows
are stored in build/all-meshes.jsonl, one per case, and summarized in build/all-meshes.md (KEPT_ROWS sets another
folder). A row is not measured again when the code changes: delete the file to start over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator
from pathlib import Path
from random import Random
from typing import Any

import shardlab
import torch
from rich.console import Console
from shardlab.hybrid.groups import training_groups
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import ProcessGroups, create_process_groups

from autograder.matrices.kept import kept_folder
from benchmarks.row import Row, at_most
from tests.shardlab.hybrid.all_meshes import WORLDS, cases
from tests.shardlab.hybrid.five_axes import Case, differences, trained, trained_alone

MOST_APART = 1e-5
AT_ONCE = 8  # cases per launch of the ranks, so that a failure loses few


def measure() -> list[Row]:
    """Train the cases that are not in the file yet, write the table, and return the largest differences.

    The environment variable ALL_MESHES=n stops after n new cases.
    """
    torch.set_num_threads(1)
    file = kept_folder() / "all-meshes.jsonl"
    every, kept = cases(), read(file)
    left = int(os.environ.get("ALL_MESHES", "1000000"))
    progress = Console(stderr=True)
    alone: dict[Any, Any] = {}
    for of_mesh in in_order(every, kept):
        if not (together := of_mesh[:left]):
            break
        left -= len(together)
        for row in judged(together, alone):
            kept[row["case"]] = row
            with file.open("a") as lines:
                lines.write(json.dumps(row) + "\n")
            progress.print(f"{len(kept)} of {len(every)}: {row}", highlight=False)
    file.with_suffix(".md").write_text(table(list(kept.values()), every))
    trained_rows = [row for row in kept.values() if "weight" in row]
    return [
        at_most(
            f"largest difference of a {what}, {len(trained_rows)} meshes",
            max(row[what] for row in trained_rows),
            MOST_APART,
        )
        for what in ("loss", "weight")
    ]


def in_order(every: list[Case], kept: Container[str]) -> list[list[Case]]:
    """Return the remaining cases by mesh: first one per combination without any, small worlds first, then the others.

    Within each part the order is random, so that the finished cases are a random sample.
    """
    tried = {combination_of(case) for case in every if str(case) in kept}
    todo = [case for case in Random(0).sample(every, len(every)) if str(case) not in kept]
    first = {combination: case for case in reversed(todo) if (combination := combination_of(case)) not in tried}
    needed = {str(case) for case in first.values()}
    wanted = sorted((case for case in todo if str(case) in needed), key=lambda case: case.mesh.world)
    return in_parts(wanted) + in_parts([case for case in todo if str(case) not in needed])


def combination_of(case: Case) -> tuple[Any, ...]:
    """Return the sizes of the five axes, the schedule and the ZeRO stage."""
    mesh = case.mesh
    return mesh.dp, mesh.pp, mesh.cp, mesh.tp, mesh.ep, case.settings.schedule.__name__, case.settings.zero


def in_parts(todo: list[Case]) -> list[list[Case]]:
    """Group cases by mesh into parts of limited size; meshes keep the order of their first appearance."""
    by_mesh: dict[Mesh, list[Case]] = {}
    for case in todo:
        by_mesh.setdefault(case.mesh, []).append(case)
    return [
        of_mesh[first : first + AT_ONCE] for of_mesh in by_mesh.values() for first in range(0, len(of_mesh), AT_ONCE)
    ]


def judged(together: list[Case], alone: dict[Any, Any]) -> list[dict[str, Any]]:
    """Return a row for each case of one mesh: differences from one process, or the message of a refusal."""
    by_rank = shardlab.run(all_trained, together, ranks=together[0].mesh.world, timeout=60 * AT_ONCE, observe=False)
    rows = []
    for case, *of_ranks in zip(together, *by_rank, strict=True):
        if refused := [text for text in of_ranks if isinstance(text, str)]:
            same = len(refused) == len(of_ranks)
            rows.append({"case": str(case), "refused": refused[0] if same else f"NOT BY ALL RANKS: {refused[0]}"})
            continue
        settings = case.settings
        key = (case.mesh.dp, settings.num_microbatches, case.config, case.moe is None, settings.bias_rate)
        if key not in alone:
            alone[key] = trained_alone(case)
        loss, norm, weight = differences(case, of_ranks, alone[key])
        rows.append({"case": str(case), "loss": loss, "norm": norm, "weight": weight})
    return rows


def all_trained(together: list[Case]) -> list[Any]:
    """For each case, return the result of `five_axes.trained` on this rank, or the message of the ValueError it raised.

    Groups live as long as their world; those of one mesh are created only once.
    """
    groups = training_groups(create_process_groups(together[0].mesh, device="cpu"), has_experts=True)
    return [_trained_or_refused(case, groups) for case in together]


def _trained_or_refused(case: Case, groups: ProcessGroups) -> Any:
    try:
        return trained(case, groups=groups)
    except ValueError as error:
        return str(error)


def read(file: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a file by case; {} if it does not exist."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {row["case"]: row for row in map(json.loads, lines)}


def table(rows: list[dict[str, Any]], every: list[Case]) -> str:
    """Format all rows as a page: cases compared, and cases refused with their messages."""
    return "\n".join(_lines(rows, every)) + "\n"


def _lines(rows: list[dict[str, Any]], every: list[Case]) -> Iterator[str]:
    trained_rows = [row for row in rows if "weight" in row]
    refused = [row for row in rows if "refused" in row]
    yield "# Every mesh of 2, 4 and 8 ranks against one process"
    yield ""
    done = {row["case"] for row in rows}
    yield f"`python -m benchmarks all-meshes`: {len(rows)} of {len(every)} cases, ten steps of AdamW in float64. "
    yield "Combinations of dp, pp, cp, tp, ep, schedule and ZeRO stage with at least one tried case: "
    for world in WORLDS:
        combinations = {combination_of(case) for case in every if case.mesh.world == world}
        tried = {combination_of(case) for case in every if case.mesh.world == world and str(case) in done}
        yield f"- {world} ranks: {len(tried)} of {len(combinations)}"
    yield ""
    if trained_rows:
        worst = max(max(row["loss"], row["weight"]) for row in trained_rows)
        yield f"{len(trained_rows)} were trained; the largest difference of a loss or a weight is {worst:.1e}."
    yield f"{len(refused)} were refused, each with an error message."
    yield ""
    for sentence in sorted({row["refused"] for row in refused}):
        yield f"- {sum(row['refused'] == sentence for row in refused)}: {sentence}"
    yield ""
    yield "| case | loss | norm, relative | weight |"
    yield "|---|---|---|---|"
    for row in sorted(trained_rows, key=lambda row: row["case"]):
        yield f"| {row['case']} | {row['loss']:.0e} | {row['norm']:.0e} | {row['weight']:.0e} |"
