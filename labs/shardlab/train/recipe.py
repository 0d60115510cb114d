"""A training run as data: a TOML file becomes small frozen dataclasses, or an error that says what to change.

`read("five-axes")` reads a recipe in the `recipes` folder here, `read("my.toml")` one of yours. Imports no torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shardlab.meant import instead
from shardlab.train.fields import section, unknown
from shardlab.train.fits import check
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
