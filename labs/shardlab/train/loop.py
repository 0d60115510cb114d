"""The loop on one rank: build, resume, step after step, end. Hooks see every step begin and end.

summary = train(recipe)                       # on every rank of the world
summary = train(recipe, hooks=[MyHook()])     # with on_begin(training), on_step(training, step), on_end(training, row)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist

from shardlab.hybrid.clipping import NotFinite
from shardlab.hybrid.mesh_trainer import MeshTrainer, Step
from shardlab.train import build
from shardlab.train.checkpoint_load import load_latest, remove_drafts
from shardlab.train.checkpoint_save import Saved, Saver
from shardlab.train.fits import on_ranks
from shardlab.train.hook import Hook
from shardlab.train.logs import Logs, Row
from shardlab.train.measure import Measurement
from shardlab.train.order import Text, rows_of_replica, sequence_numbers, text_of
from shardlab.train.peak import mfu, peak_flops
from shardlab.train.randomness import Dropouts
from shardlab.train.rates import rate_at
from shardlab.train.recipe import Recipe, to_tables

TRACE, FIGURE = "step-trace.json", "loss.svg"


@dataclass(frozen=True)
class Summary:
    """What a training tells at its end, the same on every rank but for `stalls`. losses: by step, of this run.

    resumed: steps that a checkpoint had done. stalls: seconds that this rank waited for each checkpoint.
    """

    losses: dict[int, float]
    resumed: int
    checkpoints: list[str]
    stalls: list[float]
    skipped: list[int] = field(default_factory=list)


class Training:
    """A recipe on this rank: what hooks see."""

    def __init__(self, recipe: Recipe, *, hooks: Sequence[Hook] = (), quiet: bool = False) -> None:
        world = dist.get_world_size()
        self.recipe, self.hooks = on_ranks(recipe, world), hooks
        self.rank, self.done = dist.get_rank(), 0
        folder = Path(recipe.run.folder) if recipe.run.folder else None
        self.text = text_of(recipe)
        self.trainer = build.trainer_of(self.recipe, world)
        self.logs = Logs(folder, rank=self.rank, events=recipe.log.tensorboard, quiet=quiet)
        self.dropouts = Dropouts(self.trainer)
        self.saver = self._saver()
        self.measurement = Measurement(self.recipe, self.trainer)
        self.peak, self.peak_from = peak_flops(recipe, world)
        self.losses: dict[int, float] = {}
        self.saves: list[Saved] = []
        self.skipped: list[int] = []

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint has to agree with, so that going on from it is the same training."""
        tables = to_tables(self.recipe)
        data = {"text": self.text.checksum, "batch": self.recipe.step.batch, "seed": self.recipe.run.seed}
        return {
            "model": tables["model"],
            "experts": tables["experts"],
            "optimizer": self.recipe.optimizer.name,
            "data": data,
        }

    def _saver(self) -> Saver | None:
        folder, given = self.recipe.checkpoint_folder, self.recipe.checkpoints
        if folder is None:
            return None
        return Saver(self.trainer, folder, keep=given.keep, asynchronous=given.asynchronous, told=self._saved)

    def _saved(self, saved: Saved) -> None:
        self.saves.append(saved)
        if saved.problem:
            self.logs.say(f"checkpoint after step {saved.step} not written: {saved.problem}. Training goes on")
        else:
            self.logs.say(
                f"checkpoint {saved.folder.name}: {saved.seconds:.2f} s, of which steps waited {saved.stall:.3f} s"
            )
        self.logs.note(
            {"checkpoint": saved.step, "problem": saved.problem, "stall": saved.stall, "seconds": saved.seconds}
        )
        for hook in self.hooks:
            hook.on_saved(self, saved)


def train(recipe: Recipe, *, hooks: Sequence[Hook] = (), quiet: bool = False) -> Summary:
    """Train a recipe on the ranks of the world, from its latest checkpoint on where there is one.

    Raises ValueError, on every rank alike, for what does not fit, and NotFinite where the recipe ends a training then.
    """
    training = Training(recipe, hooks=hooks, quiet=quiet)
    resumed = resume(training)
    for hook in hooks:
        hook.on_begin(training)
    last = min(recipe.run.steps, recipe.run.until or recipe.run.steps)
    while training.done < last:
        one_step(training)
    return finish(training, resumed)


def resume(training: Training) -> int:
    """Load the latest checkpoint that is whole; returns how many steps it has behind it."""
    folder, logs = training.recipe.checkpoint_folder, training.logs
    describe(training)
    if folder is None:
        return 0
    if training.rank == 0:
        remove_drafts(folder, logs.say)
    if not training.recipe.checkpoints.resume:
        return 0
    contents = load_latest(training.trainer, folder, facts=training.facts, say=logs.say)
    if contents is None:
        return 0
    training.done = contents["step"]
    logs.say(f"resumed after step {training.done}, saved on {contents['mesh']}")
    return training.done


def describe(training: Training) -> None:
    """What is trained, on what: the first lines of a log."""
    mesh, step, logs = training.trainer.mesh, training.recipe.step, training.logs
    numbers = sum(one.numel() for one in training.trainer.masters())
    logs.say(
        f"dp {mesh.dp} pp {mesh.pp} cp {mesh.cp} tp {mesh.tp} ep {mesh.ep} etp {mesh.expert_tp}, ZeRO {step.zero}, "
        f"{step.schedule} with {step.microbatches} microbatches, {step.dtype}; rank 0 updates {numbers:,} numbers"
    )
    text = training.text
    logs.say(f"{text.num_sequences:,} sequences of {text.sequence} tokens; MFU's peak: {training.peak_from}")
    logs.note({"recipe": to_tables(training.recipe)})


def batch_of(text: Text, recipe: Recipe, trainer: MeshTrainer, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels of this rank's replica in step number `step`, from 1 on."""
    batch, microbatches = recipe.step.batch, recipe.step.microbatches
    numbers = sequence_numbers(recipe.run.seed, step - 1, batch=batch, num_sequences=text.num_sequences)
    replica = trainer.mesh.coordinates(dist.get_rank())["dp"]
    return text.batch([numbers[row] for row in rows_of_replica(batch, microbatches, trainer.mesh, replica)])


def one_step(training: Training) -> None:
    """Batch and rate of this step, the step, its row, and a checkpoint where one is due."""
    recipe, step = training.recipe, training.done + 1
    for hook in training.hooks:
        hook.on_step(training, step)
    tokens, labels = batch_of(training.text, recipe, training.trainer, step)
    rate = rate_at(step - 1, recipe.rate, recipe.run.steps)
    for optimizer in training.trainer.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
    training.dropouts.begin(step)

    began = time.perf_counter()
    told = _told(training, step, tokens, labels)
    seconds = time.perf_counter() - began
    training.done = step
    if told is not None:
        _log(training, told, rate, seconds)
    if training.saver is not None:
        training.saver.poll()
        if recipe.checkpoints.every and step % recipe.checkpoints.every == 0:
            save(training)


def save(training: Training) -> None:
    """Begin a checkpoint of the steps that are done; every rank calls."""
    if training.saver is not None:
        mesh = {name: getattr(training.trainer.mesh, name) for name in ("dp", "pp", "cp", "tp", "ep")}
        text = " ".join(f"{name} {size}" for name, size in mesh.items())
        rate = rate_at(training.done - 1, training.recipe.rate, training.recipe.run.steps)
        position = training.done * training.recipe.step.batch
        training.saver.begin(training.done, training.facts | {"mesh": text, "rate": rate, "sequences": position})


def finish(training: Training, resumed: int) -> Summary:
    """The last checkpoint, the figure, and what to tell."""
    given, saver = training.recipe.checkpoints, training.saver
    if saver is not None:
        is_saved = given.every and training.done % given.every == 0
        if given.at_end and training.done > resumed and not is_saved:
            save(training)
        saver.finish()
    draw(training)
    training.logs.close()
    written = [str(saved.folder) for saved in training.saves if not saved.problem]
    stalls = [saved.stall for saved in training.saves]
    return Summary(training.losses, resumed, written, stalls, training.skipped)


def draw(training: Training) -> None:
    """The loss curve of all runs of this folder, as a picture."""
    folder = training.logs.folder
    if folder is None or not training.recipe.log.figure:
        return
    from shardlab.train.curve import draw_log

    training.logs.say(draw_log(folder, folder / FIGURE))


def _told(training: Training, step: int, tokens: torch.Tensor, labels: torch.Tensor) -> Step | None:
    """The step, looked at closely where the recipe says so; None where its gradients were not numbers."""

    def plain() -> Step:
        return training.trainer.step(tokens, labels)

    measure, look = training.recipe.log.measure, training.measurement
    try:
        if step == measure:
            if training.saver is not None:
                training.saver.finish()  # its thread would be measured, too
            told = look.messages(plain)
            training.logs.file(TRACE, look.trace)
            return told
        if measure and step == measure + 1:
            told = look.memory(plain)
            for line in look.table():
                training.logs.say(line)
            training.logs.note(look.plain())
            return told
        return plain()
    except NotFinite as error:
        if training.recipe.survival.on_not_finite == "stop":
            raise
        training.skipped.append(step)
        training.logs.say(f"step {step} left out: {error}")
        return None


def _log(training: Training, told: Step, rate: float, seconds: float) -> None:
    recipe, step = training.recipe, training.done
    tokens = recipe.step.batch * recipe.model.sequence
    row = Row(
        step=step,
        loss=told.loss,
        norm=told.norm,
        rate=rate,
        tokens=tokens,
        seconds=seconds,
        mfu=mfu(build.transformer_of(recipe), tokens, seconds, training.peak),
        memory=psutil.Process().memory_info().rss,
    )
    training.losses[step] = told.loss
    training.logs.row(row, steps=recipe.run.steps, show=step % recipe.log.every == 0)
    for hook in training.hooks:
        hook.on_end(training, row)
