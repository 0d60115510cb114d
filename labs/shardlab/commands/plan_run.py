"""`shardlab plan --here --run`: train the plan and print its predictions next to the measurements."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlab.costs.models.model import Transformer
    from shardlab.costs.planning.planner import Plan
    from shardlab.train.planned import Beside

MOST_RANKS = 64


def run_plan(plan: Plan, model: Transformer, *, steps: int, quiet: bool) -> list[Beside]:
    """Train a plan on ranks of this machine for a few steps; return predictions and measurements.

    Raises ValueError if the plan cannot run here or its ranks fail.
    """
    from shardlab.train.planned import beside, recipe_of, to_toml

    if plan.layout.world > MOST_RANKS:
        raise ValueError(f"{plan.layout.world} ranks on one machine: use --gpus {MOST_RANKS} or fewer")
    with TemporaryDirectory(prefix="shardlab-") as name:
        folder = Path(name)
        recipe = recipe_of(model, plan.layout, steps=steps, folder=folder)
        (folder / "plan.toml").write_text(to_toml(recipe))
        from shardlab.train import program

        code = program.start(recipe, [str(folder / "plan.toml"), *(["--quiet"] if quiet else [])])
        if code != program.DONE:
            raise ValueError(f"the plan's ranks exited with code {code}: {program.MEANING.get(code, 'see above')}")
        return beside(plan, model, folder)
