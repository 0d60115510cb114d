"""A training run in figures: losses, tokens per second, goodput (the share of time on work that lasts), one step."""

import os
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from shardlab.costs import failures
from shardlab.costs.overlap import Transfer, efficiency, exposed_seconds
from shardlab.figures.labels import written_seconds
from shardlab.figures.palette import MEASURED, PALETTE, text_colour

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
    together = len({run[0][0] for run in runs}) == 1
    where = " that begin together" if together else "; each later run begins at a dot"
    more = f", in {len(runs)} runs{where}" if len(runs) > 1 else ""
    return f"In words: the loss goes from {first:.3f} to {last:.3f} in {last_step} steps{more}."


def draw_throughput(ax: Axes, measured: Mapping[int, float], *, cores: int = 0) -> str:
    """Draw tokens per second by number of ranks, where each rank has its own batch; returns the sentence.

    measured: ranks -> tokens of all ranks per second. cores: more ranks than cores take turns; default: this machine's.
    Raises ValueError without a measurement for one rank, with which all others are compared.
    """
    if 1 not in measured or min(measured.values()) <= 0:
        raise ValueError(f"also measure one rank, with more than 0 tokens per second; got {dict(measured)}")
    cores = cores or os.cpu_count() or 1
    ranks, values = zip(*sorted(measured.items()), strict=True)
    allowed = [measured[1] * min(number, cores) for number in ranks]
    ax.plot(ranks, [measured[1] * number for number in ranks], "--", color=PALETTE["communication"], linewidth=1)
    ax.plot(ranks, allowed, "-", color=PALETTE["communication"], linewidth=1)
    ax.plot(ranks, values, "o-", color=MEASURED, linewidth=1.5)
    for text, last, colour in (
        ("ranks times one", measured[1] * ranks[-1], PALETTE["communication"]),
        (f"{cores} core{'' if cores == 1 else 's'}", allowed[-1], PALETTE["communication"]),
        ("measured", values[-1], MEASURED),
    ):
        ax.annotate(text, (ranks[-1], last), (6, -3), textcoords="offset points", fontsize=8, color=colour)
    ax.set_xlim(0.8, ranks[-1] * 1.3)
    ax.set_ylim(0, None)
    ax.xaxis.set_major_locator(FixedLocator(list(ranks)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("ranks", fontsize=8)
    ax.set_ylabel("tokens per second", fontsize=8)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    times = values[-1] / measured[1]
    ax.set_title(f"{ranks[-1]} ranks train {times:.1f} times as fast as one here", loc="left", fontsize=10)
    more = ", ".join(
        f"{number} ranks {rate / measured[1]:.2f} times as many"
        for number, rate in zip(ranks[1:], values[1:], strict=True)
    )
    return f"In words: on {cores} cores one rank trains {measured[1]:,.0f} tokens per second; {more}."


def draw_overlap(
    ax: Axes,
    forward_seconds: float,
    backward_seconds: Sequence[float],
    timeline: Sequence[Transfer],
    *,
    title: str,
    limit_seconds: float | None = None,
) -> str:
    """Draw a step: forward and backward on top, the buckets below, gray where a lane is idle.

    Each layer's backward has the layer's number and is drawn as two halves; its gradient is ready after both.

    backward_seconds: one per layer, in the order of the backward. timeline: when each bucket is sent.
    limit_seconds: where the time axis ends, to compare figures. Returns the sentence.
    """
    compute = forward_seconds + sum(backward_seconds)
    exposed = exposed_seconds(compute, timeline)
    for lane in (0, 1):
        ax.add_patch(Rectangle((0, lane - 0.4), compute + exposed, 0.8, facecolor=PALETTE["idle"], linewidth=0))
    _box(ax, 0, 0.0, forward_seconds, "F", "forward")
    begin = forward_seconds
    for layer, seconds in zip(reversed(range(len(backward_seconds))), backward_seconds, strict=True):
        _box(ax, 0, begin, begin + seconds, str(layer), "backward")
        half = {
            "facecolor": PALETTE["weights"],
            "linewidth": 0,
        }  # no line between the halves, because nothing is sent between them
        ax.add_patch(Rectangle((begin + seconds / 2, -0.4), seconds / 2, 0.8, **half))
        ax.add_patch(Rectangle((begin, -0.4), seconds, 0.8, fill=False, edgecolor="white", linewidth=0.6))
        begin += seconds
    for number, bucket in enumerate(timeline):
        _box(ax, 1, bucket.begin, bucket.end, str(number), "communication")

    share = efficiency(compute, exposed)
    ax.set_xlim(0, limit_seconds or compute + exposed)
    ax.set_ylim(1.5, -0.5)
    ax.set_yticks([0, 1], ["compute: layer", "link: bucket"], fontsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(8))
    ax.xaxis.set_major_formatter(lambda value, _: written_seconds(value) if value else "0")
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)
    ax.set_title(f"{title}: {share:.0%} efficiency", loc="left", fontsize=10)
    counted = f"{len(timeline)} bucket{'' if len(timeline) == 1 else 's'}"
    return (
        f"In words: {title}: {written_seconds(compute)} of compute, {counted}, "
        f"{written_seconds(exposed)} of communication exposed, efficiency {share:.1%}."
    )


def _box(ax: Axes, lane: int, begin: float, end: float, text: str, colour: str) -> None:
    fill = PALETTE[colour]
    ax.add_patch(Rectangle((begin, lane - 0.4), end - begin, 0.8, facecolor=fill, edgecolor="white", linewidth=0.6))
    ax.text((begin + end) / 2, lane, text, ha="center", va="center", fontsize=7, color=text_colour(fill))
