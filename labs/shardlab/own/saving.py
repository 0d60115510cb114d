"""Checkpoints of the learner's own trainer, which any mesh can load: pieces of the whole model's tensors. For week 15.

A checkpoint holds the weights and the routers' biases, which is all that SGD needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Piece = dict[str, Any]  # the format of `mine.build.reads`: part, layer, expert, rows and columns in the whole tensor
BIAS, LOG, MANIFEST = "bias", "log.jsonl", "manifest.json"


def train_on(given: dict[str, Any], folder: Path, steps: int, every: int, killed: tuple[int, int] | None = None) -> int:
    """On each rank: train from the newest checkpoint up to step `steps`; returns the checkpoint's step.

    every: steps between checkpoints. killed: (rank, step): this rank gets a SIGKILL before this step. Rank 0 appends
    {"step", "loss"} to `log.jsonl`.
    """
    from mine import model, program, train

    recipe = program.recipe_of(given, dist.get_world_size())
    trainer = train.new_trainer(recipe, program.groups_of(recipe), model.new_weights(recipe), model.new_text(recipe))
    begun = load(trainer, folder)
    for step in range(begun + 1, steps + 1):
        if killed == (dist.get_rank(), step):
            os.kill(os.getpid(), signal.SIGKILL)
        loss = train.train_step(trainer, step - 1)
        if dist.get_rank() == 0:
            with (folder / LOG).open("a") as log:
                log.write(json.dumps({"step": step, "loss": loss}) + "\n")
        if step % every == 0:
            save(trainer, step, folder)
    return begun


def losses_in(folder: Path) -> dict[int, float]:
    """The loss of each step; if a step ran twice, its later loss."""
    rows = map(json.loads, (folder / LOG).read_text().splitlines())
    return {row["step"]: row["loss"] for row in rows}


def save(trainer: Any, step: int, folder: Path) -> None:
    """Write every rank's pieces into `step-N.tmp`; then rank 0 writes the manifest and renames the folder.

    Raises ValueError for an optimizer other than SGD, whose state would not be saved.
    """
    if trainer.recipe.optimizer != "sgd":
        raise ValueError(f"a checkpoint holds weights only: train with sgd instead of {trainer.recipe.optimizer}")
    unfinished = folder / f"step-{step}.tmp"
    unfinished.mkdir(parents=True, exist_ok=True)
    text = json.dumps([[piece, numbers.tolist()] for piece, numbers in _all_pieces(trainer, weights_of(trainer))])
    (unfinished / f"rank-{dist.get_rank()}.json").write_text(text)
    dist.barrier()
    if dist.get_rank() == 0:  # a save that was killed may have left files of more ranks, or a broken folder
        files = [unfinished / f"rank-{rank}.json" for rank in range(dist.get_world_size())]
        sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        (unfinished / MANIFEST).write_text(json.dumps({"ranks": len(files), "sha256": sums}))
        rmtree(folder / f"step-{step}", ignore_errors=True)
        unfinished.rename(folder / f"step-{step}")
    dist.barrier()


@torch.no_grad()
def load(trainer: Any, folder: Path) -> int:
    """Load the newest complete checkpoint into a new trainer; returns its step, 0 if there is none.

    Raises ValueError if the checkpoint lacks a piece, because a different model saved it.
    """
    from mine import build, train

    texts = {one.name: {path.name: path.read_text() for path in one.iterdir()} for one in folder.glob("step-*")}
    newest = build.newest_complete(texts)
    if newest is None:
        return 0
    files = [json.loads(texts[newest][name]) for name in json.loads(texts[newest][MANIFEST])["sha256"]]
    saved = [(piece, torch.tensor(numbers)) for file in files for piece, numbers in file]
    weights = weights_of(trainer)
    for balance in trainer.balance.values():
        balance[BIAS] = balance[BIAS].clone()  # a new trainer's layers share one vector of zeros
    for piece, numbers in _all_pieces(trainer, weights):
        found = build.reads(piece, [one for one, _ in saved])
        if found is None:
            raise ValueError(f"{folder / newest} lacks a part of {piece['part']}: it was saved by a different model")
        for at, *block in found:
            source, saved_numbers = saved[at]
            _block(piece, numbers, *block).copy_(_block(source, saved_numbers, *block))
    sharers = {key: trainer.sharers(key) for key in trainer.units}
    units, _ = train.new_units(weights, lambda key: (sharers[key].rank(), sharers[key].size()), trainer.recipe.zero)
    for key, unit in units.items():
        trainer.units[key].data.copy_(unit)
    return int(newest.partition("-")[2])


def weights_of(trainer: Any) -> dict[str, Tensor]:
    """Copies of this rank's parts of the weights, by name; ZeRO-3 gathers them first."""
    from mine import train

    with torch.no_grad():
        found = {key: train.named(trainer, key, unit) for key, unit in trainer.units.items()}
    return {f"{key.split()[0]}.{name}": one.clone() for key, own in found.items() for name, one in own.items()}


def _all_pieces(trainer: Any, weights: dict[str, Tensor]) -> Iterator[tuple[Piece, Tensor]]:
    """Weights and the routers' biases as pieces, each with a matrix that shares the tensor's memory."""
    for name, weight in weights.items():
        yield from _pieces(trainer, name, weight)
    for block, balance in trainer.balance.items():
        if trainer.recipe.experts and block.isdigit():
            yield from _pieces(trainer, f"{block}.{BIAS}", balance[BIAS])


def _pieces(trainer: Any, name: str, weight: Tensor) -> Iterator[tuple[Piece, Tensor]]:
    """A weight as matrices: one per expert; a vector becomes a matrix with one column."""
    from mine import model

    block, own_name = name.split(".", 1)
    layers = [int(one) for own in trainer.stages.values() for one in own if one.isdigit()]
    if block.isdigit():
        piece = {"part": own_name, "layer": int(block) - layers[0], "first_layer": layers[0]}
    else:
        piece = {"part": name, "layer": 0, "first_layer": 0}
    if own_name.startswith("expert"):
        first = trainer.groups["ep"].rank() * len(weight)
        sides = {"rows": [0, weight.shape[1]], "columns": [0, weight.shape[2]]}
        for number in range(len(weight)):
            yield piece | sides | {"expert": number, "first_expert": first}, weight[number]
        return
    matrix = weight if weight.dim() == 2 else weight[:, None]
    begins = [0, 0]
    if (side := model.SPLIT_BY_TP.get(own_name)) is not None:
        begins[side] = trainer.groups["tp"].rank() * matrix.shape[side]
    rows, columns = ([begin, begin + size] for begin, size in zip(begins, matrix.shape, strict=True))
    yield piece | {"rows": rows, "columns": columns, "expert": -1, "first_expert": 0}, matrix


def _block(piece: Piece, numbers: Tensor, rows: list[int], columns: list[int]) -> Tensor:
    """A view of this piece's numbers at the given rows and columns of the whole matrix."""
    down, right = piece["rows"][0], piece["columns"][0]
    return numbers[rows[0] - down : rows[1] - down, columns[0] - right : columns[1] - right]
