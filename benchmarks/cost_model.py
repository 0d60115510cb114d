"""Predict step times of published runs: our cost model, constant utilization, SimuMax, and llm-analysis if installed.

All follow the same rule: parameters are fitted without the source being predicted. llm-analysis takes one FLOP
efficiency per GPU generation: the value from 0.30 to 0.90 with the smallest error on the other sources. It is not
among the pinned packages: `pip install llm-analysis==0.2.2 'fire<0.6'` in a separate environment that sees `labs/`.
SimuMax's predictions are those its authors published with their runs, from kernels timed on that very machine.
"""

from __future__ import annotations

import logging
import re
import statistics
from collections.abc import Callable, Sequence
from functools import cache

from shardlab.costs.validation.published import Run, read_rows
from shardlab.costs.validation.validate import (
    SUBSETS,
    Predict,
    constant_utilisation,
    errors_of,
    fitted_model,
    held_out,
    measured_runs,
)

from benchmarks.row import Row

NAME = "16-bit runs with tensor or pipeline parallelism"
GPU_NAMES = {"a100": "a100-sxm-80gb", "h100": "h100-sxm-80gb"}
EFFICIENCIES = [0.30 + 0.02 * k for k in range(31)]


def measure() -> list[Row]:
    """Return errors in percent, averaged over sources; the first row's peer is llm-analysis, if it is installed."""
    runs = measured_runs()
    ours, constant = held_out(runs, fitted_model), held_out(runs, constant_utilisation)
    some = [run for run in runs if SUBSETS[NAME](run) and run.gpu.name in GPU_NAMES]
    rows = []
    peer = _llm_analysis()
    if peer:
        both = [run for run in some if peer(run, 0.5) is not None]
        theirs = held_out(both, lambda others: _with_best_efficiency(peer, others))
        rows.append(_row(f"{len(both)} 3-D runs, vs. llm-analysis, %", both, ours, theirs))
    rows.append(_row(f"{len(some)} 3-D runs, vs. constant utilization, %", some, ours, constant))
    rows.append(_row(f"{len(runs)} runs, vs. constant utilization, %", runs, ours, constant))
    theirs = _simumax()
    same = [run for run in runs if run.id in theirs]
    rows.append(_row(f"{len(same)} runs of SimuMax, vs. SimuMax, %", same, ours, lambda run: theirs[run.id]))
    return rows


def _simumax() -> dict[str, float]:
    """Return {run id: seconds} predicted by the authors of the runs, from the rows' notes."""
    noted = {row["id"]: re.search(r"SimuMax prediction ([\d.]+) ms", row["note"]) for row in read_rows()}
    return {name: float(found[1]) / 1e3 for name, found in noted.items() if found}


def _row(name: str, runs: Sequence[Run], ours: Predict, theirs: Predict) -> Row:
    error, peer = (100 * errors_of(runs, one).macro for one in (ours, theirs))
    return Row(name, error, peer, peer / error, "less than the peer's", error < peer)


def _with_best_efficiency(peer: Callable[[Run, float], float | None], runs: Sequence[Run]) -> Predict:
    def error(generation: str, efficiency: float) -> float:
        by_family: dict[str, list[float]] = {}
        for run in runs:
            seconds = peer(run, efficiency)
            if run.gpu.generation == generation and seconds and run.step_seconds:
                by_family.setdefault(run.family, []).append(abs(seconds / run.step_seconds - 1))
        return statistics.mean(map(statistics.mean, by_family.values()))

    generations = {run.gpu.generation for run in runs}
    best = {each: min(EFFICIENCIES, key=lambda one, each=each: error(each, one)) for each in generations}
    return lambda run: peer(run, best[run.gpu.generation]) or float("inf")


def _llm_analysis() -> Callable[[Run, float], float | None] | None:
    """Return a function from run and FLOP efficiency to seconds (None if it refuses); None if it is not installed."""
    try:
        from llm_analysis.analysis import (  # pyright: ignore[reportMissingImports]
            ActivationRecomputation,
            DSZeRO,
            LLMAnalysis,
        )
        from llm_analysis.config import (  # pyright: ignore[reportMissingImports]
            ModelConfig,
            ParallelismConfig,
            get_gpu_config_by_name,
        )
    except ImportError:
        return None
    logging.disable(logging.CRITICAL)

    @cache
    def seconds(run: Run, efficiency: float) -> float | None:
        model, layout = run.model, run.layout
        sizes = ModelConfig(
            model.name,
            model.layers,
            model.heads,
            model.hidden,
            model.vocab,
            model.sequence,
            model.kv_heads,
            ffn_embed_dim=model.ffn,
            expansion_ratio=model.ffn / model.hidden,
        )
        degrees = ParallelismConfig(layout.tp, layout.pp, layout.dp, 1, layout.tp if layout.sequence_parallel else 1)
        analysis = LLMAnalysis(
            sizes,
            get_gpu_config_by_name(GPU_NAMES[run.gpu.name]),
            parallelism_config=degrees,
            flops_efficiency=efficiency,
            hbm_memory_efficiency=0.75,
        )
        try:
            answer = analysis.training(
                batch_size_per_gpu=layout.microbatch,
                gradient_accumulation_steps=layout.num_microbatches,
                seq_len=model.sequence,
                activation_recomputation=ActivationRecomputation[layout.recompute.upper()],
                ds_zero=DSZeRO(layout.zero),
                flash_attn=model.flash,
                mlp_gated_linear_units=model.gated,
            )
        except AssertionError:
            return None
        return answer["latency_per_iter"]

    return seconds
