"""A race on four ranks: one small model, one batch, and your recipe of mesh, schedule, ZeRO and recomputation.

A recipe is plain data, {"tp": 2, "zero": 1, "learning_rate": 0.02, ...}; missing entries come from REFERENCE. Three
results do not depend on the machine: the losses, the one-rank losses to compare them with, and the peak of live bytes
on the fullest rank. Tokens per second do depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.training import next_tokens
from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.hybrid.settings import RECOMPUTE, Settings
from shardlab.meant import instead
from shardlab.mesh.axes import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.meter.held import alive
from shardlab.model.gpt import GPTConfig
from shardlab.model.moe import MoEConfig
from shardlab.model.moe_gpt import MoEGPT
from shardlab.model.router import Choice
from shardlab.pipeline_parallel.builders import gpipe, interleaved, one_f_one_b, zb_h1, zbv
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.ranks.run import run

RANKS = 4
ROWS, SEQUENCE, VOCABULARY = 8, 32, 32
STEPS, WATCHED = 5, 2  # the first WATCHED steps measure memory, the others time
SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zb-h1": zb_h1,
    "zbv": zbv,
}


@dataclass(frozen=True)
class RaceEntry:
    """A recipe for the race. `from_dict` checks it."""

    tp: int = 1
    pp: int = 1
    dp: int = RANKS
    cp: int = 1
    ep: int = 1
    microbatches: int = 1
    schedule: str = "1f1b"
    zero: int = 0
    recompute: str = "none"
    sequence_parallel: bool = False
    learning_rate: float = 0.001

    @property
    def mesh(self) -> Mesh:
        """The mesh of all ranks. Experts are whole on each tp rank."""
        return Mesh(tp=self.tp, pp=self.pp, dp=self.dp, cp=self.cp, ep=self.ep, etp=1)

    @property
    def alone(self) -> RaceEntry:
        """The same training on one rank."""
        return RaceEntry(dp=1, microbatches=self.microbatches, learning_rate=self.learning_rate)


REFERENCE = RaceEntry()


@dataclass(frozen=True)
class Lap:
    """One rank's report: a loss per step, the peak of live bytes, and the seconds of the steps after WATCHED."""

    losses: tuple[float, ...]
    peak_bytes: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Throughput of all ranks together."""
        return (len(self.losses) - WATCHED) * ROWS * SEQUENCE / self.seconds


def from_dict(given: Mapping[str, object]) -> RaceEntry:
    """A recipe that is ready to run. Raises ValueError if it is invalid and says what would work."""
    known = {field.name: field.type for field in fields(RaceEntry)}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"a recipe has no {name!r}: use one of {', '.join(known)}")
        wanted = type(getattr(REFERENCE, name))
        if type(value) is not wanted and not (wanted is float and type(value) is int):
            raise ValueError(f"{name} = {value!r}: give a value like {getattr(REFERENCE, name)!r}")
    recipe = replace(REFERENCE, **given)
    _check(recipe)
    return recipe


def _check(recipe: RaceEntry) -> None:
    for name, value in asdict(recipe).items():
        if type(value) is int and not 0 <= value <= ROWS:
            raise ValueError(f"{name} = {value}: use a number up to {ROWS}")
    if recipe.mesh.world != RANKS:
        raise ValueError(f"tp * pp * dp * cp is {recipe.mesh.world}: use a mesh of {RANKS} ranks")
    for name, names in (("schedule", tuple(SCHEDULES)), ("recompute", RECOMPUTE)):
        if getattr(recipe, name) not in names:
            raise ValueError(f"{name} = {getattr(recipe, name)!r}: {instead(getattr(recipe, name), names)}")
    if not recipe.microbatches or ROWS % (recipe.microbatches * recipe.dp):
        shared = f"dp = {recipe.dp} and {recipe.microbatches} microbatches"
        raise ValueError(f"{ROWS} sequences with {shared}: use numbers whose product divides {ROWS}")
    if not 0 < recipe.learning_rate < 1:
        raise ValueError(f"learning_rate = {recipe.learning_rate}: use a number between 0 and 1")


def race(recipe: RaceEntry, seed: int = 0) -> Lap:
    """Run STEPS steps of Adam on each rank of the recipe's mesh. Raises ValueError for an unsupported recipe."""
    torch.manual_seed(seed)
    config = GPTConfig(layers=4, hidden=32, heads=4, sequence=SEQUENCE, vocabulary=VOCABULARY, tied=False)
    whole = MoEGPT(config, MoEConfig(hidden=32, width=64, choice=Choice(experts=4, k=2)))
    settings = Settings(
        num_microbatches=recipe.microbatches,
        schedule=SCHEDULES[recipe.schedule],
        zero=recipe.zero,
        recompute=recipe.recompute,  # type: ignore[arg-type]
        sequence_parallel=recipe.sequence_parallel,
    )
    new_optimizer = partial(torch.optim.Adam, lr=recipe.learning_rate)
    trainer = MeshTrainer(whole, create_process_groups(recipe.mesh), new_optimizer, settings)
    del whole
    tokens, labels = batch_of(recipe, recipe.mesh.coordinates(dist.get_rank())["dp"], seed)
    with alive([one.slice.master for one in trainer.owned]) as watched:
        losses = [trainer.step(tokens, labels).loss for _ in range(WATCHED)]
    dist.barrier()
    began = time.perf_counter()
    losses += [trainer.step(tokens, labels).loss for _ in range(STEPS - WATCHED)]
    return Lap(tuple(losses), watched.peak, time.perf_counter() - began)


def raced(given: Mapping[str, object], seed: int = 0) -> list[Lap]:
    """Race on RANKS real ranks and return every rank's lap. Raises ValueError for an unsupported recipe."""
    return list(run(race, from_dict(given), seed, ranks=RANKS, timeout=60))


def batch_of(recipe: RaceEntry, replica: int, seed: int) -> tuple[Tensor, Tensor]:
    """A replica's sequences, each an arithmetic progression modulo VOCABULARY.

    The replicas' j-th microbatches together are the j-th microbatch of a single rank.
    """
    generator = torch.Generator().manual_seed(seed)
    starts, steps = torch.randint(0, VOCABULARY, (2, ROWS, 1), generator=generator)
    tokens = (starts + torch.arange(SEQUENCE) * (steps % 4 + 1)) % VOCABULARY
    parts = [one.chunk(recipe.dp)[replica] for one in tokens.chunk(recipe.microbatches)]
    mine = torch.cat(parts)
    return mine, next_tokens(mine)
