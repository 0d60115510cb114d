"""Race the trainer built from the course's own answers against the package's `MeshTrainer`, on the same mesh.

Both train a GPT of the same size with Adam, alternating in one process per rank; the slowest rank's time counts. With
ZeRO-3 both recompute each block in the backward.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from random import Random
from statistics import median
from typing import Any

import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel.training import next_tokens
from shardlab.hybrid import MeshTrainer, Settings
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.model.gpt import GPT, GPTConfig

from benchmarks.row import Row, at_least_times

SIZES: dict[str, Any] = {"layers": 4, "hidden": 256, "heads": 8, "sequence": 256, "vocabulary": 512}
BATCH, MICROBATCHES, ROUNDS, WARM_UP = 16, 2, 9, 2
MOST_TIMES = 1.25  # times the package's step
LAYOUTS: list[dict[str, Any]] = [
    {"dp": 2, "pp": 2, "tp": 2},
    {"dp": 2, "cp": 2, "tp": 2},
    {"dp": 8},
    {"dp": 8, "zero": 1},
    {"dp": 8, "zero": 2},
    {"dp": 8, "zero": 3},
]


def measure() -> list[Row]:
    """Return a row for each layout: medians of alternating steps."""
    rows = []
    for layout in LAYOUTS:
        by_rank = shardlab.run(race, layout, ranks=8, observe=False, timeout=600)
        ours, peer = (median(map(max, zip(*one, strict=True))) for one in zip(*by_rank, strict=True))
        name = " x ".join(f"{axis} {size}" for axis, size in layout.items())
        rows.append(at_least_times(f"step of mine, {name}, s", ours, peer, 1 / MOST_TIMES))
    return rows


def race(layout: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Return the seconds of our trainer's steps and of the package's, alternating."""
    torch.set_num_threads(1)
    both = own(layout), packages(layout)
    seconds: tuple[list[float], list[float]] = [], []
    for number in range(WARM_UP + ROUNDS):
        for who in Random(number).sample((0, 1), 2):  # the same order on every rank
            dist.barrier()
            began = time.perf_counter()
            both[who](number)
            if number >= WARM_UP:
                seconds[who].append(time.perf_counter() - began)
    return seconds


def own(layout: dict[str, Any]) -> Callable[[int], Any]:
    """Return a function that runs a step of `mine`."""
    program, model, train = (import_module(f"mine.{name}") for name in ("program", "model", "train"))
    given = SIZES | layout | {"batch": BATCH, "microbatches": MICROBATCHES, "lr": 0.001, "optimizer": "adam"}
    recipe = program.recipe_of(given, dist.get_world_size())
    groups = program.groups_of(recipe)
    trainer = train.new_trainer(recipe, groups, model.new_weights(recipe), model.new_text(recipe))
    return lambda number: train.train_step(trainer, number)


def packages(layout: dict[str, Any]) -> Callable[[int], Any]:
    """Return a function that runs a step of `MeshTrainer`."""
    torch.manual_seed(0)
    mesh = Mesh(**{axis: size for axis, size in layout.items() if axis != "zero"})
    settings = Settings(
        num_microbatches=MICROBATCHES,
        zero=layout.get("zero", 0),
        sequence_parallel=mesh.tp > 1,
        recompute="full" if layout.get("zero") == 3 else "none",
    )
    whole = GPT(replace(GPTConfig(tied=False), **SIZES))
    trainer = MeshTrainer(whole, create_process_groups(mesh), partial(torch.optim.Adam, lr=0.001), settings)
    tokens = torch.randint(SIZES["vocabulary"], (BATCH // mesh.dp, SIZES["sequence"]))
    return lambda number: trainer.step(tokens, next_tokens(tokens))
