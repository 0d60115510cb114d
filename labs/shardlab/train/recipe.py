"""A training run as data: a TOML file becomes small frozen dataclasses, or an error that says what to change.

`read("five-axes")` reads a recipe in the `recipes` folder here, `read("my.toml")` one of yours. Imports no torch. The
sections must fit each other and the number of ranks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from shardlab.costs.models.model import divisors
from shardlab.meant import instead
from shardlab.mesh.axes import Mesh, mesh_of_world
from shardlab.train.sections import (
    Axes,
    Checkpoints,
    Experts,
    LearningRate,
    Log,
    Model,
    Optimizer,
    Run,
    StepConfig,
    Survival,
    section,
    unknown,
)

FOLDER = Path(__file__).with_name("recipes")


@dataclass(frozen=True)
class Recipe:
    """A whole training run. Raises ValueError if its sections contradict each other."""

    model: Model
    step: StepConfig
    run: Run
    experts: Experts = field(default_factory=Experts)
    mesh: Axes = field(default_factory=Axes)
    optimizer: Optimizer = field(default_factory=Optimizer)
    lr: LearningRate = field(default_factory=LearningRate)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    log: Log = field(default_factory=Log)
    survival: Survival = field(default_factory=Survival)

    def __post_init__(self) -> None:
        check(self)

    @property
    def checkpoint_folder(self) -> Path | None:
        """The folder for checkpoints; None to write none."""
        if self.checkpoints.folder:
            return Path(self.checkpoints.folder)
        return Path(self.run.folder, "checkpoints") if self.run.folder else None


SECTIONS = {
    "model": Model,
    "experts": Experts,
    "mesh": Axes,
    "step": StepConfig,
    "optimizer": Optimizer,
    "lr": LearningRate,
    "run": Run,
    "checkpoints": Checkpoints,
    "log": Log,
    "survival": Survival,
}


# ---- reading ---------------------------------------------------------------------------------------------------------


def read(name_or_file: str | Path, changes: Iterable[str] = ()) -> Recipe:
    """Read a built-in recipe by name or a file by path, with changes such as "mesh.tp=2". Raises as `parse` does."""
    path = Path(name_or_file)
    if path.suffix != ".toml":
        path = FOLDER / f"{name_or_file}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        ready = instead(name_or_file, sorted(one.stem for one in FOLDER.glob("*.toml")))
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise ValueError(f"there is no recipe {str(name_or_file)!r}, and no .toml file ({reason}): {ready}") from None
    try:
        return parse(text, changes)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def parse(text: str, changes: Iterable[str] = ()) -> Recipe:
    """A recipe from TOML. Raises ValueError that names the key, the value and what would work."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"this is not valid TOML: {error}") from None
    for change in changes:
        _set(tables, change)
    return from_tables(tables)


def from_tables(tables: dict[str, Any]) -> Recipe:
    """A recipe from plain dicts, {"model": {...}, "step": {...}, "run": {...}, ...}."""
    if "rate" in tables:
        raise ValueError("[rate] is now called [lr]: write [lr], with the same keys (--set lr.peak=1e-3)")
    for name, table in tables.items():
        if name not in SECTIONS:
            raise ValueError(unknown(f"[{name}]", name, table, list(SECTIONS)))
    wanted = [name for name in ("model", "step", "run") if name not in tables]
    return Recipe(**{name: section(SECTIONS[name], name, tables.get(name, {})) for name in {*tables, *wanted}})


def to_tables(recipe: Recipe) -> dict[str, Any]:
    """The whole recipe as plain data that `from_tables` can read."""
    return asdict(recipe)


def _set(tables: dict[str, Any], change: str) -> None:
    """Apply one "section.key=value"; the value is TOML, or text without quotes."""
    path, equals, text = change.partition("=")
    name, dot, key = path.strip().partition(".")
    if not equals or not dot or not key:
        raise ValueError(f"--set {change!r} sets nothing: write section.key=value, such as mesh.tp=2")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table = tables.setdefault(name, {})
    if not isinstance(table, dict):
        raise ValueError(f"{name} = {table!r} is not a table: write [{name}] and put its keys below it")
    table[key] = value


# ---- sections that fit each other and the ranks ----------------------------------------------------------------------


def check(recipe: Recipe) -> None:
    """Raise ValueError for the first contradiction."""
    _check_model(recipe)
    _check_lengths(recipe)
    _check_files(recipe)
    if recipe.mesh.dp:
        check_batch(recipe, mesh_of(recipe, mesh_ranks(recipe)))


def mesh_ranks(recipe: Recipe) -> int:
    """How many ranks the mesh has; with dp = 0, those of one replica."""
    axes = recipe.mesh
    return max(1, axes.dp) * axes.pp * axes.cp * axes.tp


def mesh_of(recipe: Recipe, ranks: int) -> Mesh:
    """The mesh on `ranks` ranks. Raises ValueError that says what would work if it does not fit."""
    axes = recipe.mesh
    sizes = {"tp": axes.tp, "pp": axes.pp, "cp": axes.cp, "ep": axes.ep, "etp": axes.etp or None}
    if axes.dp == 0:
        return mesh_of_world(ranks, **sizes)
    mesh = Mesh(dp=axes.dp, **sizes)
    if mesh.world != ranks:
        raise ValueError(
            f"mesh: dp * pp * cp * tp = {axes.dp} * {axes.pp} * {axes.cp} * {axes.tp} = {mesh.world} ranks, but there "
            f"are {ranks}: start {mesh.world}, or leave mesh.dp out to compute it from the other axes"
        )
    return mesh


def on_ranks(recipe: Recipe, ranks: int) -> Recipe:
    """The recipe with dp and etp filled in for `ranks` ranks. Raises ValueError if the mesh does not fit."""
    mesh = mesh_of(recipe, ranks)
    return replace(recipe, mesh=replace(recipe.mesh, dp=mesh.dp, etp=mesh.expert_tp))


def check_batch(recipe: Recipe, mesh: Mesh) -> None:
    """Raise ValueError if the batch cannot be divided among replicas and microbatches."""
    batch, each = recipe.step.batch, mesh.dp * recipe.step.microbatches
    if batch % each:
        below, above = batch // each * each, (batch // each + 1) * each
        raise ValueError(
            f"step.batch = {batch} cannot be divided among {mesh.dp} replicas (mesh.dp) with "
            f"{recipe.step.microbatches} microbatches each: use a multiple of {each}, such as {below or above}"
            + (f" or {above}" if below else "")
        )


def _check_model(recipe: Recipe) -> None:
    model, experts = recipe.model, recipe.experts
    if model.hidden % model.heads:
        fits = [heads for heads in divisors(model.hidden) if heads <= 2 * model.heads]
        raise ValueError(
            f"model.heads = {model.heads} does not divide model.hidden = {model.hidden}: use one of {fits}"
        )
    if model.kv_heads and model.heads % model.kv_heads:
        raise ValueError(
            f"model.kv_heads = {model.kv_heads} does not divide model.heads = {model.heads}: use one of "
            f"{divisors(model.heads)}"
        )
    if model.rope and model.hidden // model.heads % 2:
        raise ValueError(
            f"model.rope rotates pairs of numbers, but a head has {model.hidden // model.heads}: use an even "
            "model.hidden / model.heads, or rope = false"
        )
    if experts.experts and experts.active > experts.experts:
        raise ValueError(
            f"experts.active = {experts.active} is more than experts.experts = {experts.experts}: use 1 to "
            f"{experts.experts}"
        )
    if not experts.experts and recipe.mesh.ep > 1:
        raise ValueError(f"mesh.ep = {recipe.mesh.ep} but the model has no experts: use 1, or give experts.experts")


def _check_lengths(recipe: Recipe) -> None:
    if recipe.lr.warmup > recipe.run.steps:
        steps = recipe.run.steps
        raise ValueError(f"lr.warmup = {recipe.lr.warmup} is longer than run.steps = {steps}: use 0 to {steps}")
    if recipe.mesh.replicas > 1 and recipe.step.zero == 0:
        raise ValueError(
            f"mesh.replicas = {recipe.mesh.replicas} needs sharded states, and step.zero = 0 has none: use "
            "step.zero = 1, 2 or 3"
        )


def _check_files(recipe: Recipe) -> None:
    if recipe.checkpoints.every and recipe.checkpoint_folder is None:
        raise ValueError(
            f"checkpoints.every = {recipe.checkpoints.every} needs a folder: give checkpoints.folder or run.folder"
        )
    if recipe.survival.on_lost_rank == "restart" and not recipe.checkpoints.every:
        raise ValueError(
            "survival.on_lost_rank = 'restart' needs a checkpoint to continue from, but checkpoints.every = 0: give "
            "checkpoints.every, such as 10"
        )
