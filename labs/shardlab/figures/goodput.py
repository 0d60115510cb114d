"""Goodput (the share of time spent on work that lasts) as a function of the time between checkpoints."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from shardlab.costs import failures
from shardlab.figures.palette import MEASURED, PALETTE

POINTS = 120


def draw_goodput(
    ax: Axes,
    save_seconds: float,
    between: float,
    restart_seconds: float,
    *,
    played: Mapping[float, float] | None = None,
    title: str,
) -> str:
    """Draw goodput by formula, from a tenth of the best interval to ten times the best, plus simulated points.

    A dashed line shows what goodput would be if a restart took no time.

    save_seconds, between, restart_seconds: as in `costs.failures`. played: simulated shares by interval in seconds.
    Returns the sentence.
    """
    best = failures.best_interval(save_seconds, between)
    taus = [best * 10 ** (2 * i / POINTS - 1) for i in range(POINTS + 1)]
    shares = [failures.goodput(tau, save_seconds, between, restart_seconds) for tau in taus]
    at_best = failures.goodput(best, save_seconds, between, restart_seconds)
    ax.plot([tau / 60 for tau in taus], shares, color=PALETTE["communication"], linewidth=1.8, label="formula")
    at_once = [failures.goodput(tau, save_seconds, between, 0) for tau in taus]
    free = {"color": PALETTE["communication"], "linewidth": 1.2, "linestyle": "--", "label": "restarts in no time"}
    if restart_seconds:
        ax.plot([tau / 60 for tau in taus], at_once, **free)
    if played:
        dots = {"color": MEASURED, "markersize": 5, "label": "simulated"}
        ax.plot([tau / 60 for tau in played], list(played.values()), "o", **dots)
    ax.axvline(best / 60, color=MEASURED, linestyle=":", linewidth=1)
    ax.annotate(
        f"√(2·δ·M) = {best / 60:.1f} min: {at_best:.1%}",
        (best / 60, min(shares)),
        (5, 0),
        textcoords="offset points",
        fontsize=8,
    )
    ax.set_xscale("log")
    ticks = [tick for tick in (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000) if taus[0] <= 60 * tick <= taus[-1]]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.tick_params(axis="y", labelsize=8)
    ax.set_xlabel("minutes of work between checkpoints", fontsize=8)
    ax.set_ylabel("goodput", fontsize=8)
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.set_title(title, loc="left", fontsize=10)
    words = (
        f"In words: {title}. A checkpoint takes {save_seconds:.3g} s, failures come every {between / 3600:.3g} hours, "
        f"a restart takes {restart_seconds:.3g} s. Best is {best / 60:.1f} minutes, with {at_best:.1%} of the time as "
        f"work ({max(at_once):.1%} if restarts took no time); a tenth of that gives {shares[0]:.1%}, "
        f"ten times that {shares[-1]:.1%}."
    )
    for number, (tau, share) in enumerate((played or {}).items()):
        exact = failures.goodput(tau, save_seconds, between, restart_seconds)
        words += (", " if number else " Simulated, with the formula in parentheses: ") + f"{share:.1%} ({exact:.1%})"
    return words + "." * bool(played)
