"""A plan as plain data, which --json outputs, and as the text of `shardlab plan`: tables with how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

import typer

from shardlab.costs.clock.setup import Setup
from shardlab.costs.failures import long_run
from shardlab.costs.hardware import GIB, Accelerator
from shardlab.costs.models.flops import model_flops_per_token, utilisation
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.candidates import TokenBatch, exact_batch, shared_batch
from shardlab.costs.planning.claims import doubts
from shardlab.costs.planning.neighbours import Neighbour, neighbours
from shardlab.costs.planning.planner import GRADIENT_BYTES, NothingFits, Plan, Search, plan
from shardlab.costs.uncertainty import step_interval
from shardlab.meant import instead
from shardlab.pipeline_parallel.timed import played_clock, timed

PLAYED = 8  # minimum number of plans to time slot by slot


@dataclass(frozen=True)
class Task:
    """The planner's input: a model, GPUs, a batch and the search space."""

    model: Transformer
    gpu: Accelerator
    gpus: int
    batch: TokenBatch
    search: Search
    fp8: bool
    imbalance: float

    @property
    def setup(self) -> Setup:
        return Setup(self.gpu, fp8=self.fp8, gradient_bytes=GRADIENT_BYTES, imbalance=self.imbalance)

    def plans(self, best: int, search: Search | None = None) -> list[Plan]:
        """The fastest plans, timed slot by slot with each chunk's actual layers. Raises NothingFits."""
        found = plan(
            self.model,
            self.gpu,
            self.gpus,
            self.batch.sequences,
            search=search or self.search,
            fp8=self.fp8,
            imbalance=self.imbalance,
            best=max(best, PLAYED),
        )
        return timed(self.model, found, self.setup)[:best]

    def answer(self, found: Sequence[Plan]) -> dict:
        """The plans, and the stages, neighbors and doubts of the first one."""
        winner, inside = found[0], self._inside_servers(found[0])
        around = neighbours(
            self.model,
            self.gpu,
            winner,
            fp8=self.fp8,
            search=self.search,
            clock=played_clock(self.model, self.setup) if winner.cut or winner.layout.pp == 1 else None,
        )
        fp8_experts = self.fp8 and self.model.experts > 0
        return {
            "model": self.model.name,
            "gpu": self.gpu.name,
            "gpus": self.gpus,
            "sequences": self.batch.sequences,
            "batch": _batch(self.batch),
            "error_of": "trained here" if self.gpu.measured else "published",
            "plans": [self._row(one, winner) for one in found],
            "neighbours": [_beside(winner, one) for one in around],
            "played_seconds": winner.step.total if winner.cut else None,
            "layers_of_stages": list(winner.cut or (self.model.layers,)),
            "doubt": " ".join(doubts(winner.layout, self.gpu, fp8_experts=fp8_experts)),
            "fastest_inside_servers": self._row(inside, winner) if inside else None,
        }

    def long_run(self, winner: Plan, tokens: int, price: float | None) -> dict:
        """Days, GPU-hours, goodput and price of training on `tokens` tokens, with the range of days given the step's
        error.
        """
        rest = (self.batch.tokens, tokens, price)
        cluster = (self.model, self.gpus, self.gpu.per_node)
        found = long_run(*cluster, winner.step.total, *rest)
        low, high = (long_run(*cluster, seconds, *rest).days for seconds in self._interval(winner.step.total))
        return asdict(found) | {"days_low": low, "days_high": high}

    def _interval(self, seconds: float) -> tuple[float, float]:
        return step_interval(seconds, here=self.gpu.measured is not None)

    def _inside_servers(self, winner: Plan) -> Plan | None:
        """The fastest plan with tensor parallelism inside a server; None if none fits.

        Returns the winner if it qualifies or if --tp was given.
        """
        if winner.layout.tp <= self.gpu.per_node or "tp" in self.search.fixed:
            return winner
        try:
            return self.plans(1, replace(self.search, max_tp=self.gpu.per_node))[0]
        except NothingFits:
            return None

    def _row(self, found: Plan, winner: Plan) -> dict:
        """A plan as a row. `waits` names the parts of a step other than compute that take at least 0.5%, largest first.

        tie: whether this plan is within the error of the first plan's step time.
        """
        parts, total = asdict(found.step), found.step.total
        tokens = found.layout.sequences_per_step * self.model.sequence
        flops = model_flops_per_token(self.model)
        waits = sorted(((seconds, name) for name, seconds in parts.items() if name != "compute"), reverse=True)
        low, high = self._interval(total)
        return {
            "layout": asdict(found.layout),
            "chunks": list(found.cut),
            "memory_gib": found.memory.total / GIB,
            "step_seconds": total,
            "step_seconds_low": low,
            "step_seconds_high": high,
            "tie": total <= self._interval(winner.step.total)[1],
            "mfu": utilisation(flops, tokens, total, found.layout.world, self.gpu.bf16_flops),
            "parts": parts,
            "waits": ", ".join(f"{name} {seconds / total:.0%}" for seconds, name in waits if seconds / total >= 0.005),
        }


def batch_of(tokens: int, sequence: int, num_gpus: int, *, exact: bool) -> TokenBatch:
    """The requested batch, or the nearest one that the GPUs can share evenly."""
    return exact_batch(tokens, sequence) if exact else shared_batch(tokens, sequence, num_gpus)


def chosen(kind: str, names: Sequence[str] | None, known: Sequence[str]) -> tuple:
    """The given names, or all known ones. Raises ValueError for an unknown name."""
    if unknown := sorted({*(names or [])} - {*known}):
        raise ValueError(f"there is no {kind} {unknown[0]!r}: {instead(unknown[0], known)}")
    return tuple(names or known)


def _batch(batch: TokenBatch) -> dict:
    """The requested and the planned batch, in tokens; change = planned / asked - 1."""
    return {
        "asked_tokens": batch.asked_tokens,
        "asked_sequences": batch.asked_tokens / batch.sequence,
        "sequence": batch.sequence,
        "sequences": batch.sequences,
        "tokens": batch.tokens,
        "change": batch.change,
    }


def _beside(winner: Plan, one: Neighbour) -> dict:
    """A neighbor as plain data; numbers are None if the layout is impossible."""
    return {
        "change": one.change,
        "fits": one.fits,
        "slower": one.plan.step.total / winner.step.total - 1 if one.plan else None,
        "step_seconds": one.plan.step.total if one.plan else None,
        "memory_gib": one.plan.memory.total / GIB if one.plan else None,
        "reason": one.reason,
    }


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
