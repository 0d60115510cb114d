"""The training loop on one rank: build, resume, run the steps, finish. Hooks are called before and after every step.

summary = train(recipe)                       # on every rank of the world
summary = train(recipe, hooks=[MyHook()])     # with on_begin(training), on_step(training, step), on_end(training, row)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist

from shardlab.hybrid.mesh_trainer import Step
from shardlab.hybrid.sums import NotFinite
from shardlab.train import build
from shardlab.train.by_step import Dropouts, lr_at, rows_of_replica, sequence_numbers, text_of
from shardlab.train.checkpoint_load import load_latest, remove_drafts
from shardlab.train.checkpoint_save import Saved, Saver
from shardlab.train.hook import Hook
from shardlab.train.logs import LoggedStep, Logs
from shardlab.train.measure import Measurement, mfu, peak_flops
from shardlab.train.recipe import Recipe, on_ranks, to_tables

TRACE, FIGURE = "step-trace.json", "loss.svg"


@dataclass(frozen=True)
class Summary:
    """The result of a training run; every rank has the same one except for `stalls`.

    losses: by step, of this run. resumed: the number of steps already in the checkpoint. stalls: seconds that this rank
    waited for each checkpoint.
    """

    losses: dict[int, float]
    resumed: int
    checkpoints: list[str]
    stalls: list[float]
    skipped: list[int] = field(default_factory=list)


class Training:
    """A recipe being trained on this rank; hooks receive this object."""

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
        """Values that a checkpoint must match so that resuming from it continues the same training."""
        tables = to_tables(self.recipe)
        data = {"text": self.text.checksum, "batch": self.recipe.step.batch, "seed": self.recipe.run.seed}
        return {
            "model": tables["model"],
            "experts": tables["experts"],
            "optimizer": self.recipe.optimizer.name,
            "data": data,
        }

    # ---- from beginning to end ---------------------------------------------------------------------------------------

    def resume(self) -> int:
        """Load the latest undamaged checkpoint; returns how many steps are done."""
        folder, say = self.recipe.checkpoint_folder, self.logs.say
        self._describe()
        if folder is None:
            return 0
        if self.rank == 0:
            remove_drafts(folder, say)
        if not self.recipe.checkpoints.resume:
            return 0
        contents = load_latest(self.trainer, folder, facts=self.facts, say=say)
        if contents is None:
            return 0
        self.done = contents["step"]
        say(f"resumed after step {self.done}, saved on {contents['mesh']}")
        return self.done

    def one_step(self) -> None:
        """Set batch and learning rate, do the step, log it, and save a checkpoint if one is due."""
        recipe, step = self.recipe, self.done + 1
        for hook in self.hooks:
            hook.on_step(self, step)
        tokens, labels = self._batch(step)
        lr = lr_at(step - 1, recipe.lr, recipe.run.steps)
        for optimizer in self.trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
        self.dropouts.begin(step)

        began = time.perf_counter()
        result = self._trained(step, tokens, labels)
        seconds = time.perf_counter() - began
        self.done = step
        if result is not None:
            self._log(result, lr, seconds)
        if self.saver is not None:
            self.saver.poll()
            if recipe.checkpoints.every and step % recipe.checkpoints.every == 0:
                self.save()

    def save(self) -> None:
        """Begin a checkpoint of the current state; call it on every rank."""
        if self.saver is not None:
            mesh = {name: getattr(self.trainer.mesh, name) for name in ("dp", "pp", "cp", "tp", "ep")}
            text = " ".join(f"{name} {size}" for name, size in mesh.items())
            lr = lr_at(self.done - 1, self.recipe.lr, self.recipe.run.steps)
            position = self.done * self.recipe.step.batch
            self.saver.begin(self.done, self.facts | {"mesh": text, "lr": lr, "sequences": position})

    def finish(self, resumed: int) -> Summary:
        """Save the last checkpoint, draw the figure, and return the summary."""
        given = self.recipe.checkpoints
        if self.saver is not None:
            is_saved = given.every and self.done % given.every == 0
            if given.at_end and self.done > resumed and not is_saved:
                self.save()
            self.saver.finish()
        self._draw()
        self.logs.close()
        written = [str(saved.folder) for saved in self.saves if not saved.problem]
        stalls = [saved.stall for saved in self.saves]
        return Summary(self.losses, resumed, written, stalls, self.skipped)

    # ---- the parts of a step -----------------------------------------------------------------------------------------

    def _batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and labels of this rank's replica in step number `step`, counted from 1."""
        batch, mesh = self.recipe.step.batch, self.trainer.mesh
        numbers = sequence_numbers(self.recipe.run.seed, step - 1, batch=batch, num_sequences=self.text.num_sequences)
        replica = mesh.coordinates(self.rank)["dp"]
        rows = rows_of_replica(batch, self.recipe.step.microbatches, mesh, replica)
        return self.text.batch([numbers[row] for row in rows])

    def _trained(self, step: int, tokens: torch.Tensor, labels: torch.Tensor) -> Step | None:
        """Do the step, measured if the recipe says so; returns None if a gradient was not finite."""

        def plain() -> Step:
            return self.trainer.step(tokens, labels)

        measure = self.recipe.log.measure
        try:
            if step == measure:
                return self._measured_messages(plain)
            if measure and step == measure + 1:
                return self._measured_memory(plain)
            return plain()
        except NotFinite as error:
            if self.recipe.survival.on_not_finite == "stop":
                raise
            self.skipped.append(step)
            self.logs.say(f"skipped step {step}: {error}")
            return None

    def _measured_messages(self, step: Callable[[], Step]) -> Step:
        if self.saver is not None:
            self.saver.finish()  # otherwise its thread would be measured, too
        result = self.measurement.messages(step)
        self.logs.file(TRACE, self.measurement.trace)
        return result

    def _measured_memory(self, step: Callable[[], Step]) -> Step:
        result = self.measurement.memory(step)
        for line in self.measurement.table():
            self.logs.say(line)
        self.logs.note(self.measurement.plain())
        return result

    # ---- logs and files ----------------------------------------------------------------------------------------------

    def _describe(self) -> None:
        """Write the first lines of the log: the model, the mesh and the data."""
        mesh, step, say = self.trainer.mesh, self.recipe.step, self.logs.say
        numbers = sum(one.numel() for one in self.trainer.masters())
        say(
            f"dp {mesh.dp} pp {mesh.pp} cp {mesh.cp} tp {mesh.tp} ep {mesh.ep} etp {mesh.expert_tp}, ZeRO {step.zero}, "
            f"{step.schedule} with {step.microbatches} microbatches, {step.dtype}; rank 0 updates {numbers:,} numbers"
        )
        text = self.text
        say(f"{text.num_sequences:,} sequences of {text.sequence} tokens; peak for the MFU: {self.peak_from}")
        self.logs.note({"recipe": to_tables(self.recipe)})

    def _log(self, result: Step, lr: float, seconds: float) -> None:
        recipe, step = self.recipe, self.done
        tokens = recipe.step.batch * recipe.model.sequence
        row = LoggedStep(
            step=step,
            loss=result.loss,
            norm=result.norm,
            lr=lr,
            tokens=tokens,
            seconds=seconds,
            mfu=mfu(build.transformer_of(recipe), tokens, seconds, self.peak),
            memory=psutil.Process().memory_info().rss,
        )
        self.losses[step] = result.loss
        self.logs.row(row, steps=recipe.run.steps, show=step % recipe.log.every == 0)
        for hook in self.hooks:
            hook.on_end(self, row)

    def _draw(self) -> None:
        """Draw the loss curve of all runs in this folder."""
        folder = self.logs.folder
        if folder is None or not self.recipe.log.figure:
            return
        from shardlab.train.logs import draw_log

        self.logs.say(draw_log(folder, folder / FIGURE))

    def _saver(self) -> Saver | None:
        folder, given = self.recipe.checkpoint_folder, self.recipe.checkpoints
        if folder is None:
            return None
        return Saver(self.trainer, folder, keep=given.keep, asynchronous=given.asynchronous, told=self._saved)

    def _saved(self, saved: Saved) -> None:
        self.saves.append(saved)
        if saved.problem:
            self.logs.say(f"checkpoint after step {saved.step} not written: {saved.problem}. Training continues")
        else:
            self.logs.say(
                f"checkpoint {saved.folder.name}: {saved.seconds:.2f} s; steps waited {saved.stall:.3f} s of that"
            )
        self.logs.note(
            {"checkpoint": saved.step, "problem": saved.problem, "stall": saved.stall, "seconds": saved.seconds}
        )
        for hook in self.hooks:
            hook.on_saved(self, saved)


def train(recipe: Recipe, *, hooks: Sequence[Hook] = (), quiet: bool = False) -> Summary:
    """Train a recipe on the ranks of the world, resuming from its latest checkpoint if there is one.

    Raises ValueError on every rank for an unsupported combination, and NotFinite for a gradient that is not finite if
    the recipe stops then.
    """
    training = Training(recipe, hooks=hooks, quiet=quiet)
    resumed = training.resume()
    for hook in hooks:
        hook.on_begin(training)
    last = min(recipe.run.steps, recipe.run.until or recipe.run.steps)
    while training.done < last:
        training.one_step()
    return training.finish(resumed)
