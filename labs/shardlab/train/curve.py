"""The loss curve of a folder's runs, as a picture."""

from __future__ import annotations

from pathlib import Path

from shardlab.train.logs import entries


def draw_log(folder: Path, picture: Path) -> str:
    """Draw the losses in a folder's log; returns a description of the figure, or that there is nothing to draw."""
    from matplotlib.figure import Figure

    from shardlab.figures.training import draw_losses

    runs = runs_of(folder)
    if not runs:
        return "no loss curve, because no step was logged"
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    words = draw_losses(figure.subplots(), runs)
    figure.savefig(picture)
    return words


def runs_of(folder: Path) -> list[list[tuple[int, float]]]:
    """(step, loss) pairs of each run in a folder that did at least one step, in the order of the runs."""
    runs: list[list[tuple[int, float]]] = []
    for entry in entries(folder):
        if "recipe" in entry:
            runs.append([])
        elif "loss" in entry and runs:
            runs[-1].append((entry["step"], entry["loss"]))
    return [run for run in runs if run]
