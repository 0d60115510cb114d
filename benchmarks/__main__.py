"""`python -m benchmarks [NAME...] [--json]`: run benchmarks and print a table. Exit code 1 if a target is missed.

`quick` selects benchmarks that together take less than ten minutes. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from importlib import import_module
from pkgutil import iter_modules

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks.row import Row
from benchmarks.times import LIMITS, QUICK, expected, remember

NO_BENCHMARKS = ("device", "row", "gpu_kernels", "profiler_traces", "single_server", "times", "__main__")
ON_REQUEST = (  # minutes or hours, a GPU, or Megatron
    "all-meshes",
    "attack-batch",
    "composed",
    "experts",
    "kills",
    "memory-bounds",
    "one-gpu-collectives",
    "one-gpu-composed",
    "one-gpu-data-parallel",
    "one-gpu-experts",
    "one-gpu-long-context",
    "one-gpu-pipelines",
    "one-gpu-tensor-parallel",
    "own-trainer",
    "planned-trainings",
    "tensor-parallel",
    "week-notebooks",
)
NAMES = [one.name.replace("_", "-") for one in iter_modules(benchmarks.__path__) if one.name not in NO_BENCHMARKS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or the default ones, one after another."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Benchmarks against peers.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"from {', '.join(NAMES)}; {QUICK}: {', '.join(LIMITS)}; default: all except {', '.join(ON_REQUEST)}",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list of rows")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in (*NAMES, QUICK)]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}: use {QUICK}, {', '.join(NAMES)}")
    rows = run(in_order(chosen.names))
    if chosen.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        Console().print(as_table(rows))
    return 0 if all(row.met for row in rows) else 1


def in_order(names: Sequence[str]) -> list[str]:
    """Return the benchmarks to run, each once; by default all except those in ON_REQUEST."""
    wanted = [one for name in names for one in (LIMITS if name == QUICK else [name])]
    return list(dict.fromkeys(wanted)) or [name for name in NAMES if name not in ON_REQUEST]


def run(names: Sequence[str]) -> list[Row]:
    """Run benchmarks; output of benchmarks and their ranks goes to standard error, together with the progress."""
    progress = Console(stderr=True, highlight=False)
    progress.print(expected(names))
    rows: list[Row] = []
    for number, name in enumerate(names, 1):
        progress.print(f"{number} of {len(names)}: measuring {name} …")
        began = time.monotonic()
        with redirect_stdout(sys.stderr):
            rows += import_module(f"benchmarks.{name.replace('-', '_')}").measure()
        progress.print(remember(name, time.monotonic() - began))
    return rows


def as_table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table for a terminal."""
    table = Table("name", "ours", "peer", "ratio", "bar", "met")
    for row in rows:
        numbers = [_written(number) for number in (row.ours, row.peer, row.ratio)]
        table.add_row(row.name, *numbers, row.bar, "yes" if row.met else "NO")
    return table


def _written(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"


if __name__ == "__main__":
    sys.exit(main())
