"""The loss over the steps, one line per run, to see where training resumed and whether it continues smoothly."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from shardlab.figures.palette import MEASURED, PALETTE

STYLES = ("-", "--", ":", "-.")


def draw_losses(ax: Axes, runs: Sequence[Sequence[tuple[int, float]]]) -> str:
    """Draw (step, loss) of each run and a dot where each later run begins; returns the sentence.

    Raises ValueError if no run has a step.
    """
    runs = [sorted(run) for run in runs if run]
    if not runs:
        raise ValueError("give at least one run with a (step, loss)")
    for number, run in enumerate(runs):
        steps, losses = zip(*run, strict=True)
        colour = MEASURED if number == 0 else PALETTE["communication"]
        ax.plot(steps, losses, STYLES[number % len(STYLES)], color=colour, linewidth=1.5)
        if number:
            ax.plot(steps[:1], losses[:1], "o", color=colour, markersize=5)
            ax.annotate(f"run {number + 1}", (steps[0], losses[0]), (0, 6), textcoords="offset points", fontsize=8)
    (_, first), (last_step, last) = runs[0][0], runs[-1][-1]
    ax.set_xlabel("step", fontsize=8)
    ax.set_ylabel("loss per token, nats", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.set_title(f"The loss goes from {first:.2f} to {last:.2f} in {last_step} steps", loc="left", fontsize=10)
    more = f", in {len(runs)} runs; each later run begins at a dot" if len(runs) > 1 else ""
    return f"In words: the loss goes from {first:.3f} to {last:.3f} in {last_step} steps{more}."
