"""Compare predicted step times of the labs, from a calibration of this machine, with measured ones.

`ours` is the error of the prediction, `peer` that of the simplest alternative: FLOPs at the best rate of a matmul.
Calibration and labs alternate, and right before each lab its ranks time one pass that the calibration includes, because
a virtual machine's speed changes from one minute to the next. Each number is the median over the rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import NamedTuple

import shardlab
import torch
from rich.console import Console
from shardlab.commands.calibration.links import BATCH as TOGETHER_BATCH
from shardlab.commands.calibration.links import MESSAGE_BYTES, TOGETHER, measure_sharing, sharing_of, slowest
from shardlab.commands.calibration.measure import calibrate
from shardlab.costs.clock.calibrated import SmallGPT, collective_seconds, gpt_pass_seconds, zero_step_seconds
from shardlab.costs.clock.calibration import Calibration, Together
from shardlab.costs.traffic import Link
from shardlab.data_parallel.experiment import build, train, vector_sizes
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.model.text import read_text
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.simulation import simulate

from benchmarks.row import Row, at_most

COURSE = Path(__file__).parents[1]
sys.path.insert(0, str(COURSE / "labs" / "lab01-parallelism-sim"))  # scripts, not a package

BAR, TURNS, ROUNDS = 0.15, 3, 15
RANKS = (2, 4)
WIDTH, SAMPLES = 512, 256  # lab 1, data parallelism
TOKENS, HIDDEN = 512, 384  # tensor parallelism
STAGE_WIDTH, ROWS, MICROBATCHES = 384, 192, 8  # pipeline
UNIT = 0.02  # seconds per action of a sleeping stage
CONFIG, BATCH = GPTConfig(layers=4, hidden=128, heads=4), 4  # lab 3
STAGES = {0: "DDP", 1: "ZeRO-1", 2: "ZeRO-2", 3: "ZeRO-3"}


class Case(NamedTuple):
    """A lab's step: functions that predict and measure its seconds, and its FLOPs on one rank (0: none)."""

    name: str
    ranks: int
    predict: Callable[[Calibration], float]
    measure: Callable[[], float]
    flops: float


def measure() -> list[Row]:
    """Return a row per lab and number of ranks; print a table of seconds to the terminal."""
    every = cases()
    predicted: dict[str, list[float]] = {case.name: [] for case in every}
    measured: dict[str, list[float]] = {case.name: [] for case in every}
    rates = []
    for _ in range(TURNS):
        here = calibrate(RANKS, device="cpu")
        rates.append(max(here.matmul["float32"].values()))
        for case in every:
            predicted[case.name].append(case.predict(now(here, case.ranks)))
            measured[case.name].append(case.measure())
    rows = []
    show = Console(stderr=True)
    for case in every:
        guess, seconds = median(predicted[case.name]), median(measured[case.name])
        show.print(f"{case.name:44} predicted {guess * 1e3:7.1f} ms, measured {seconds * 1e3:7.1f} ms", highlight=False)
        rival = abs(case.flops / median(rates) / seconds - 1) if case.flops else None
        rows.append(at_most(f"{case.name}: error", abs(guess / seconds - 1), BAR, rival))
    return rows


def now(here: Calibration, ranks: int) -> Calibration:
    """Update the calibration to current conditions: a pass, alone and on `ranks` ranks at once, and an all-reduce."""
    shared = shardlab.run(measure_sharing, "cpu", ranks=ranks, timeout=240, transport="gloo")
    slowdown, hidden = sharing_of(shared)
    sizes = SmallGPT(TOGETHER.layers, TOGETHER.hidden, TOGETHER_BATCH, TOGETHER.sequence, TOGETHER.vocabulary)
    times = slowest(shared, "alone") / gpt_pass_seconds(here, sizes)
    slower = slowest(shared, "message") / collective_seconds(here, "all_reduce", ranks, MESSAGE_BYTES)
    links = {kind: Link(*(slower * part for part in link)) for kind, link in here.ranks[ranks].links.items()}
    return replace(
        here,
        matmul={dtype: {side: rate / times for side, rate in rates.items()} for dtype, rates in here.matmul.items()},
        memory={size: rate / times for size, rate in here.memory.items()},
        pass_seconds=scaled(here.pass_seconds, times),
        linear_seconds=scaled(here.linear_seconds, times),
        adam_seconds=scaled(here.adam_seconds, times),
        bookkeeping=tuple((tensor * times, parameter * times) for tensor, parameter in here.bookkeeping),
        operation=here.operation * times,
        ranks={ranks: Together(slowdown, hidden, links)},
    )


def scaled(seconds: tuple[float, float, float], times: float) -> tuple[float, float, float]:
    first, second, third = seconds
    return first * times, second * times, third * times


def cases() -> list[Case]:
    """Return all labs with all numbers of ranks."""
    lab_1 = (data_parallel, tensor_parallel, pipeline, asleep)
    return [make(ranks) for ranks in RANKS for make in lab_1] + [zero(ranks, one) for ranks in RANKS for one in STAGES]


def data_parallel(ranks: int) -> Case:
    lab = import_module("dp_simulation")
    return Case(
        f"lab 1, data parallel, {ranks} ranks",
        ranks,
        lambda here: lab.predict(here, ranks, WIDTH, SAMPLES).total,
        lambda: lab.measure(ranks, WIDTH, SAMPLES, ROUNDS)[1].total,
        5 * 2 * SAMPLES * WIDTH**2,
    )


def tensor_parallel(ranks: int) -> Case:
    lab = import_module("tp_simulation")
    return Case(
        f"lab 1, tensor parallel, {ranks} ranks",
        ranks,
        lambda here: lab.predict(here, ranks, TOKENS, HIDDEN).total,
        lambda: lab.measure(ranks, TOKENS, HIDDEN, ROUNDS)[3].total,
        6 * 2 * TOKENS * HIDDEN * 4 * HIDDEN / ranks,
    )


def pipeline(ranks: int) -> Case:
    lab, built = import_module("pp_simulation"), BUILDERS["1f1b"](ranks, MICROBATCHES)
    return Case(
        f"lab 1, pipeline with real compute, {ranks} ranks",
        ranks,
        lambda here: lab.predict(here, built, STAGE_WIDTH, ROWS),
        lambda: lab.measure(built, STAGE_WIDTH, ROWS, ROUNDS).makespan,
        MICROBATCHES * lab.LAYERS * 3 * 2 * ROWS * STAGE_WIDTH**2,
    )


def asleep(ranks: int) -> Case:
    from shardlab.pipeline_parallel.emulated import run_emulated

    built = BUILDERS["1f1b"](ranks, MICROBATCHES)
    return Case(
        f"lab 1, pipeline with sleeping stages, {ranks} ranks",
        ranks,
        lambda _: simulate(built).makespan * UNIT,
        lambda: run_emulated(built, seconds_per_unit=UNIT).makespan * UNIT,
        0.0,
    )


def zero(ranks: int, stage: int) -> Case:
    with torch.device("meta"):
        model = GPT(CONFIG)
    vectors = vector_sizes(model, stage or 2)  # DDP has the same buckets as stage 2
    sizes = SmallGPT(CONFIG.layers, CONFIG.hidden, BATCH, CONFIG.sequence, CONFIG.vocabulary)
    return Case(
        f"lab 3, {STAGES[stage]}, {ranks} ranks",
        ranks,
        lambda here: zero_step_seconds(here, ranks, stage, sizes, vectors),
        lambda: train_small_gpt(ranks, stage),
        6 * sum(vectors) * BATCH * CONFIG.sequence,
    )


def train_small_gpt(ranks: int, stage: int) -> float:
    """Return the seconds per step of lab 3 on the slowest rank."""
    by_rank = shardlab.run(one_rank, stage, ranks=ranks, timeout=240, transport="gloo")
    return max(rank.seconds for rank in by_rank)


def one_rank(stage: int):
    return train(build(stage, CONFIG, None), CONFIG, read_text(COURSE / "docs"), steps=ROUNDS, batch=BATCH)


if __name__ == "__main__":
    for row in measure():
        print(row, flush=True)
