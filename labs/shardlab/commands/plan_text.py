"""What `shardlab plan` prints: its answer as tables, with what a reader has to know beside them."""

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
    "v chunks of a stage (*: uneven ones, which a framework wants listed one by one), b sequences of a microbatch,\n"
    "m microbatches of a step, GiB of the fullest rank, ± seconds within which 9 of 10 {runs} stayed.\n"
    "Not computing: tensor, context, expert and data are messages that nothing hides, boundaries those between stages."
)
RUNS = {
    "published": "published runs",
    "trained here": "trainings of two small models\non a shared CPU (docs/training.md)",
}
WAYS = {
    "ring": "by a ring, beside the attention",
    "gathered": "by an all-gather",
    "ulysses": "by all-to-alls of heads (Ulysses)",
}
FIGURES = ("GiB", "seconds", "±", "MFU")
WORDS = ("schedule", "recompute", "tie", "not computing")  # flush left


def show(answer: dict, *, fp8: bool = False) -> None:
    """Print an answer of `shardlab plan`: the plans, the stages, the neighbours, the doubts."""
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
        typer.echo(f"Ties (=), within the error of the first: {ties} below it. Measure them before you choose.")
    best = plans[0]["layout"]
    if best["cp"] > 1:
        typer.echo(f"\nThe first reaches the keys of its {best['cp']} context-parallel ranks {WAYS[best['context']]}")
    sizes, cut = answer["layers_of_stages"], plans[0]["chunks"]
    if cut:
        named = "chunks" if plans[0]["layout"]["virtual"] > 1 or len(sizes) > best["pp"] else "stages"
        typer.echo(f"\nIts {len(sizes)} {named}, in order: {_counted(sizes)}")
        typer.echo(f"Played slot by slot with these: a step of {answer['played_seconds']:.3f} s, the seconds above")
    elif best["pp"] > 1:
        typer.echo("\nIts schedule is too long to be played: its seconds are those of mean stages")
    typer.echo("\nWhy the first wins: its neighbours, on as many GPUs and with the same batch")
    around = [[one["change"], *_costs(one), one["reason"]] for one in answer["neighbours"]]
    _table(["change", "step", "GiB", "why not"], around, left=("change", "why not"))
    if answer["doubt"]:
        typer.echo(f"\nCheck before you trust it: {answer['doubt']}")
    if answer["fastest_inside_servers"] != plans[0]:
        typer.echo(_inside(answer["fastest_inside_servers"], plans[0]))
    if "run_of_tokens" in answer:
        typer.echo(_long_run(answer["run_of_tokens"]))
    if "flags" in answer:
        typer.echo("\n".join([f"\nFlags of {answer['flags']['for']} for the first:", *answer["flags"]["flags"]]))


def _rounded(batch: dict) -> str:
    asked, sequences = batch["asked_tokens"], batch["asked_sequences"]
    said = (
        f"{asked:,} tokens are {sequences:,.1f} sequences: planned are {batch['sequences']:,}, "
        f"{batch['tokens']:,} tokens ({batch['change']:+.2%})"
    )
    if batch["sequences"] == round(sequences):
        return f"{said}, the nearest whole number"
    return f"{said}, which these GPUs can share; --exact-batch keeps {round(sequences):,}"


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
    """Days of all tokens and what they cost."""
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
    """What staying inside a server costs."""
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
    """Columns as wide as what is in them; numbers flush right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        ]
        typer.echo(("  " + "  ".join(cells)).rstrip())
