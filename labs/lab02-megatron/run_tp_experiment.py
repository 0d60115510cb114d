"""Where does Megatron communicate? Compare its layers, blocks and GPTModel with ours and with one process."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from on_cpu import megatron_on_cpu
from rich.console import Console
from rich.table import Table
from shardlab.model.gpt import GPTConfig
from shardlab.ranks.run import on_ranks
from start import import_megatron
from three_modules import Case, Part
from tp_comparison import Found, Message, compare
from tp_formulas import predicted_bytes
from upstream_bugs import SMOOTHING, Bugs, both_bugs


class Recompute(StrEnum):
    """Which part of a block the backward recomputes."""

    NONE, SELECTIVE, FULL = "none", "selective", "full"


def main(
    ranks: Annotated[
        int, typer.Option(min=1, max=16, help="Number of tensor-parallel ranks, t; torchrun's takes precedence.")
    ] = 2,
    sequence_parallel: Annotated[bool, typer.Option(help="Also split the sequence between the layers.")] = False,
    recompute: Annotated[Recompute, typer.Option(help="Which part of a block to recompute.")] = Recompute.NONE,
    messages_of: Annotated[Part, typer.Option(help="The part whose messages to list.")] = Part.MODEL,
    layers: Annotated[int, typer.Option(min=1, help="Number of blocks.")] = 1,
    hidden: Annotated[int, typer.Option(min=1, help="Hidden size, h; the MLP is 4h wide.")] = 64,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads, a.")] = 4,
    kv_heads: Annotated[int, typer.Option(min=0, help="Key-value heads; 0: one per head.")] = 0,
    gated: Annotated[bool, typer.Option(help="Use SwiGLU instead of GELU in blocks and model.")] = False,
    sequence: Annotated[int, typer.Option(min=1, help="Sequence length, s.")] = 16,
    microbatch: Annotated[int, typer.Option(min=1, help="Microbatch size, b.")] = 2,
    vocabulary: Annotated[int, typer.Option(min=2, help="Vocabulary size, V.")] = 64,
    profile: Annotated[Path | None, typer.Option(help="Folder for torch.profiler's traces of Megatron.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every message and difference.")] = False,
) -> None:
    """Compare Megatron's tensor parallelism with ours: outputs, gradients, and every message with its source line."""
    size = int(os.environ.get("WORLD_SIZE", ranks))
    try:
        config = GPTConfig(layers, hidden, heads, sequence, vocabulary, kv_heads=kv_heads, gated=gated, flash=False)
        check(config, size, sequence_parallel)
        version = import_megatron()
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
    cases = [Case(part, config, microbatch, sequence_parallel, recompute) for part in Part]
    traces = str(profile.resolve()) if profile else ""
    with redirect_stdout(sys.stderr):  # progress is not part of the output
        by_rank = on_ranks(compare_and_find_bugs, cases, vocabulary, traces, ranks=size, gpus=False)
    if by_rank is None:
        return

    found = [worst(part_by_rank) for part_by_rank in zip(*(one for one, _ in by_rank), strict=True)]
    bugs = [one for _, one in by_rank]
    if as_json:
        typer.echo(json.dumps({"megatron_core": version, **as_data(cases, found, bugs)}, indent=2))
        return
    console = Console(width=None if Console().is_terminal else 124, highlight=False)
    split = " and the sequence" if sequence_parallel else ""
    console.print(f"megatron-core {version}, t = {size}: weights{split} are split; recompute: {recompute}")
    console.print(summary(cases, found, size))
    chosen = found[list(Part).index(messages_of)]
    console.print(messages_table(chosen, f"Where are the communications injected? Part: {messages_of}"))
    show_bugs(bugs, console)


def check(config: GPTConfig, size: int, sequence_parallel: bool) -> None:
    """Raise ValueError for sizes that Megatron or ours cannot split, suggesting sizes that work."""
    kv_heads = config.kv_heads or config.heads
    fits = [t for t in range(1, config.heads + 1) if config.heads % t == 0 and (kv_heads % t == 0 or t % kv_heads == 0)]
    if size not in fits:
        raise ValueError(f"{config.heads} heads cannot be split over {size} ranks: use --ranks from {fits}")
    for name, number in (("vocabulary", config.vocabulary), ("sequence", config.sequence * sequence_parallel)):
        if number % size:
            near = sorted({max(1, number // size) * size, (number // size + 1) * size})
            raise ValueError(f"a {name} of {number} cannot be split over {size} ranks: use one of {near}")
    if sequence_parallel and size == 1:
        raise ValueError("one rank cannot split a sequence: use --ranks 2 or more, or --no-sequence-parallel")


def compare_and_find_bugs(cases: Sequence[Case], vocabulary: int, traces: str) -> tuple[list[Found], Bugs]:
    """Run on one rank."""
    torch.set_num_threads(1)
    megatron_on_cpu(dist.get_world_size())
    return compare(cases, traces), both_bugs(vocabulary)


def worst(by_rank: Sequence[Found]) -> Found:
    """The first rank's messages, and each tensor's largest difference on any rank."""
    first = by_rank[0]
    return first._replace(
        to_megatron={name: max(one.to_megatron[name] for one in by_rank) for name in first.to_megatron},
        to_one_process={name: max(one.to_one_process[name] for one in by_rank) for name in first.to_one_process},
    )


def summary(cases: Sequence[Case], found: Sequence[Found], size: int) -> Table:
    """One row per comparison."""
    table = Table(title=f"One step on each of {size} ranks", title_justify="left")
    table.add_column("part")
    for heading in ("messages\nours", "\nMegatron", "bytes sent\npredicted", "\nours", "\nMegatron"):
        table.add_column(heading, justify="right")
    for heading in ("difference\nto Megatron", "\nto one process"):
        table.add_column(heading, justify="right")
    for case, one in zip(cases, found, strict=True):
        sent = (predicted_bytes(case, size), one.our_bytes, one.megatron_bytes)
        apart = (max(one.to_megatron.values()), max(one.to_one_process.values()))
        numbers = [str(len(one.ours)), str(len(one.megatron)), *(f"{number:.0f}" for number in sent)]
        table.add_row(str(case.part), *numbers, *(f"{number:.1e}" for number in apart))
    return table


def messages_table(one: Found, title: str) -> Table:
    """Megatron's messages next to ours, in order; a gap means that only one of the two sends."""
    table = Table(title=title, title_justify="left")
    for heading in ("phase", "collective", "bytes", "Megatron", "ours"):
        table.add_column(heading, overflow="fold")
    phase = ""
    for theirs, ours in aligned(one.megatron, one.ours):
        first = theirs or ours
        assert first is not None
        sources = [message.source.replace(", ", "\n") if message else "" for message in (theirs, ours)]
        table.add_row(first.phase if first.phase != phase else "", first.kind, str(first.payload_bytes), *sources)
        phase = first.phase
    return table


def aligned(megatron: Sequence[Message], ours: Sequence[Message]) -> Iterator[tuple[Message | None, Message | None]]:
    """Pairs of equal phase, kind and bytes, in order; None if only one of the two sends a message."""
    theirs, mine = ([message[:3] for message in messages] for messages in (megatron, ours))
    for what, a, b, c, d in SequenceMatcher(None, theirs, mine, autojunk=False).get_opcodes():
        if what == "equal":
            yield from zip(megatron[a:b], ours[c:d], strict=True)
        else:
            yield from ((message, None) for message in megatron[a:b])
            yield from ((None, message) for message in ours[c:d])


def show_bugs(bugs: Sequence[Bugs], console: Console) -> None:
    """Print two bugs of the installed version: the number on each rank, next to one process and ours."""
    size, first = len(bugs), bugs[0]
    ranks = [f"rank {rank}" for rank in range(size)]
    title = f"A known bug: mean loss with label smoothing {SMOOTHING}"
    table = Table("", "one process", *ranks, title=title, title_justify="left", min_width=len(title))
    for column in table.columns[1:]:
        column.justify = "right"
    for name in ("megatron_smoothed", "our_smoothed"):
        losses = [getattr(one, name) for one in bugs]
        numbers = [losses[0].whole, *(one.split for one in losses)]
        table.add_row("Megatron" if name.startswith("megatron") else "ours", *(f"{number:.4f}" for number in numbers))
    console.print(table)
    too_large = first.megatron_gathered.split - first.megatron_gathered.whole
    console.print(
        f"Another bug: already gathered logits are given to the loss for split logits.\n"
        f"Megatron's loss is {too_large:+.6f} off on every rank; log {size} = {math.log(size):.6f}.\n"
        f"Ours: {first.our_refusal or 'one rank has nothing to gather'}."
    )


def as_data(cases: Sequence[Case], found: Sequence[Found], bugs: Sequence[Bugs]) -> dict:
    """Everything as plain data."""
    size = len(bugs)
    parts = {
        str(case.part): {
            "predicted_bytes": predicted_bytes(case, size),
            **one._asdict(),
            "megatron": [message._asdict() for message in one.megatron],
            "ours": [message._asdict() for message in one.ours],
        }
        for case, one in zip(cases, found, strict=True)
    }
    return {
        "ranks": size,
        "sizes": asdict(cases[0].sizes),
        "sequence_parallel": cases[0].sequence_parallel,
        "recompute": str(cases[0].recompute),
        "parts": parts,
        "bugs": [{name: getattr(one, name) for name in one._fields} for one in bugs],
    }


if __name__ == "__main__":
    typer.run(main)
