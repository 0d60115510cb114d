"""The text that `shardlab plan` prints: tables with what a reader needs to know to read them."""

from collections.abc import Sequence
from itertools import groupby

import typer

COLUMNS = {
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "cp": "cp",
    "ep": "ep",
    "v": "virtual",
    "b": "microbatch",
    "m": "num_microbatches",
    "zero": "zero",
    "schedule": "schedule",
}
LEGEND = (
    "v: chunks per stage (*: uneven; list them one by one for a framework), b: sequences per microbatch,\n"
    "m: microbatches per step, GiB: the fullest rank, ±: seconds that cover 9 of 10 {runs}.\n"
    "Not computing: tensor, context, expert and data are exposed communication; boundaries is between stages."
)
RUNS = {
    "published": "published runs",
    "trained here": "training runs of two small models\non a shared CPU (docs/training.md)",
}
WAYS = {
    "ring": "by a ring, overlapped with attention",
    "gathered": "by an all-gather",
    "ulysses": "by all-to-alls of heads (Ulysses)",
}
FIGURES = ("GiB", "seconds", "±", "MFU")
WORDS = ("schedule", "recompute", "tie", "not computing")  # flush left


def show(answer: dict, *, fp8: bool = False) -> None:
    """Print the answer of `shardlab plan`: the plans, stages, neighbors and doubts."""
    batch, plans = answer["batch"], answer["plans"]
    typer.echo(
        f"{answer['model']} on {answer['gpus']} {answer['gpu']}, {batch['sequences']} sequences of {batch['sequence']} "
        f"tokens per step"
    )
    if batch["tokens"] != batch["asked_tokens"]:
        typer.echo(_rounded(batch))
    header = [*COLUMNS, "recompute", *FIGURES, "tie", "not computing"]
    _table(header, [_line(plan) for plan in plans], left=WORDS)
    typer.echo(LEGEND.format(runs=RUNS[answer["error_of"]]) + (" MFU of the bf16 peak." if fp8 else ""))
    if ties := sum(plan["tie"] for plan in plans) - 1:
        typer.echo(f"Ties (=), within the error of the first plan: {ties}. Measure them before you choose.")
    best = plans[0]["layout"]
    if best["cp"] > 1:
        typer.echo(f"\nThe first plan gets the keys of its {best['cp']} context-parallel ranks {WAYS[best['context']]}")
    sizes, cut = answer["layers_of_stages"], plans[0]["chunks"]
    if cut:
        named = "chunks" if plans[0]["layout"]["virtual"] > 1 or len(sizes) > best["pp"] else "stages"
        typer.echo(f"\nIts {len(sizes)} {named}, in order: {_counted(sizes)}")
        typer.echo(f"Simulated slot by slot with these: a step takes {answer['played_seconds']:.3f} s, as listed above")
    elif best["pp"] > 1:
        typer.echo("\nIts schedule is too long to simulate: its time assumes average stages")
    typer.echo("\nWhy the first plan wins: its neighbors, with the same GPUs and batch")
    around = [[one["change"], *_costs(one), one["reason"]] for one in answer["neighbours"]]
    _table(["change", "step", "GiB", "why not"], around, left=("change", "why not"))
    if answer["doubt"]:
        typer.echo(f"\nCheck this before you trust the plan: {answer['doubt']}")
    if answer["fastest_inside_servers"] != plans[0]:
        typer.echo(_inside(answer["fastest_inside_servers"], plans[0]))
    if "run_of_tokens" in answer:
        typer.echo(_long_run(answer["run_of_tokens"]))
    if "flags" in answer:
        typer.echo("\n".join([f"\nThe first plan as flags of {answer['flags']['for']}:", *answer["flags"]["flags"]]))


def _rounded(batch: dict) -> str:
    asked, sequences = batch["asked_tokens"], batch["asked_sequences"]
    said = (
        f"{asked:,} tokens are {sequences:,.1f} sequences: the plan uses {batch['sequences']:,}, "
        f"{batch['tokens']:,} tokens ({batch['change']:+.2%})"
    )
    if batch["sequences"] == round(sequences):
        return f"{said}, the nearest whole number"
    return f"{said}, which these GPUs can share evenly; --exact-batch keeps {round(sequences):,}"


def _line(plan: dict) -> list[str]:
    layout, error = plan["layout"], (plan["step_seconds_high"] - plan["step_seconds_low"]) / 2
    again = layout["recompute"]
    if layout["recomputed"]:
        again = "{} of {}".format(*layout["recomputed"])
    figures = [f"{plan['memory_gib']:.1f}", f"{plan['step_seconds']:.3f}", f"{error:.2g}", f"{plan['mfu']:.1%}"]
    shown = {key: str(layout[name]) for key, name in COLUMNS.items()}
    if layout["virtual"] > 1 and len({*plan["chunks"][1:-1]}) > 1:
        shown["v"] += "*"
    return [*shown.values(), again, *figures, "=" if plan["tie"] else "", plan["waits"]]


def _long_run(run: dict) -> str:
    """Days and cost of training on all tokens."""
    price = f", {run['price']:,.0f} at the price given" if run["price"] is not None else ""
    return (
        f"\n{run['tokens']:,} tokens: {run['steps']:,} steps, {run['days']:.1f} days ({run['days_low']:.1f} to "
        f"{run['days_high']:.1f} within the error), {run['gpu_hours']:,.0f} GPU-hours{price}.\n"
        f"Goodput {run['goodput']:.1%}: {run['failures']:.0f} failures, as often as on Llama 3's GPUs, and a "
        f"checkpoint every {run['checkpoint_minutes']:.0f} minutes."
    )


def _costs(one: dict) -> list[str]:
    return ["", ""] if one["slower"] is None else [f"{one['slower']:+.1%}", f"{one['memory_gib']:.1f}"]


def _inside(inside: dict | None, winner: dict) -> str:
    """The cost of staying inside a server."""
    if inside is None:
        return "No layout of this batch whose tensor parallelism stays inside a server fits."
    layout, slower = inside["layout"], inside["step_seconds"] / winner["step_seconds"] - 1
    return (
        f"The fastest inside servers: tp {layout['tp']} pp {layout['pp']} dp {layout['dp']} cp {layout['cp']}, "
        f"{inside['step_seconds']:.3f} s ({slower:+.1%}), {inside['memory_gib']:.1f} GiB"
    )


def _counted(sizes: Sequence[int]) -> str:
    """(8, 8, 8, 6) -> "3 with 8 layers, 1 with 6"."""
    (first, *rest) = [(len(list(run)), size) for size, run in groupby(sizes)]
    layers = "layer" if first[1] == 1 else "layers"
    return ", ".join([f"{first[0]} with {first[1]} {layers}", *(f"{number} with {size}" for number, size in rest)])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str]) -> None:
    """Print columns as wide as their longest cell; numbers flush right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        ]
        typer.echo(("  " + "  ".join(cells)).rstrip())
